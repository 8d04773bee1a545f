"""Drivers that are libraries in C with CUDA's functions under names of their own, called through ctypes: no package is needed.

api      the functions, and what a library calls them            errors   what users are told of a function that fails
device   memory, kernels, a stream and events of one device
arrays   arrays in device memory, given to others and taken from them        calls    calls with such

`cuda/` and `hip/` have what is different: an `Interface` each.
"""
