"""What is exact in the manner of Tu et al. 2024, and what is nearly so.

family          two linear layers whose D has two eigenvalues: theorem, invariance, boundary, sequences
random_starts   every mode of a random initialisation by itself: where it is exact, and how its error falls
"""
