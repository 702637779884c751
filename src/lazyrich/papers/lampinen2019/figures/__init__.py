"""Figures after Lampinen and Ganguli 2019: a teacher seen through noise, lazy against rich, the interpolation peak."""
