"""Braun et al. 2022, "Exact learning dynamics of deep linear networks with prior knowledge"."""
