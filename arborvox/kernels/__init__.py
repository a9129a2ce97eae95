"""What all Numba kernels share: how they are compiled, split between threads, and their maths."""
