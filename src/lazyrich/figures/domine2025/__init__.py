"""Dominé et al. 2025 and lecture notes on deep linear networks: lazy to rich by the balance λ, saddle to saddle."""
