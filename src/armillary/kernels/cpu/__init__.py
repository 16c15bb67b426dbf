"""CPU kernels: the only home of numba."""
