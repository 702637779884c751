"""Kunin et al. 2024, "Get rich quick": how unbalanced initialisations promote rapid feature learning."""
