"""Kernels of the GPU engine in Triton, one room with the engine: the only home of torch and triton besides it."""
