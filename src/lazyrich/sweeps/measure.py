NAMES = ("loss", "test_loss", "kernel_distance", "hamming_distance", "parameter_distance")
