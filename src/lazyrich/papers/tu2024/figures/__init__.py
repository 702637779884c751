"""Figures after Tu et al. 2024: random initialisations beside the closed form of every mode by itself."""
