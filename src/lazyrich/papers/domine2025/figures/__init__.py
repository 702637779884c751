"""Dominé et al. 2025: lazy to rich by the balance λ."""
