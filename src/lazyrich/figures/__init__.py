"""Figures, one file each: `compute` returns the data, `draw` a matplotlib figure of them, both apart."""
