"""CUDA without a package: NVIDIA's driver library through ctypes. The driver is all a user needs.

api      the functions of the library        errors   their results by name, and what to do about them
facts    a device as a target                driver   memory, kernels, streams and events of one device
arrays   arrays in device memory, given to others and taken from them        calls    calls with such
"""
