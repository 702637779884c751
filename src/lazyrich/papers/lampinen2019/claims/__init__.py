"""A noisy teacher of low rank, after Lampinen, Ganguli 2019.

spectrum        what of the teacher is seen in the samples: threshold, singular values, overlaps
test_error      the error on the teacher itself along training, mode by mode
interpolation   one layer trained to the end, by the number of samples
"""
