"""Lecture notes on deep linear networks: landscape, sigmoids, staircases, completion by depth, ratio of modes."""
