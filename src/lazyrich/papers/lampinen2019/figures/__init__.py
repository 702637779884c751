"""Figures after Lampinen and Ganguli 2019: a noisy teacher in the samples, in training, and at the interpolation peak."""
