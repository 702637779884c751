"""Kunin et al. 2024, "Get rich quick": how unbalanced starts promote rapid feature learning."""
