"""One-line plots of trajectories, and the look of all figures."""
