"""What is exact in the manner of Tu et al. 2024.

family   two linear layers whose D has two eigenvalues: theorem, invariance, boundary, sequences
"""
