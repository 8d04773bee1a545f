"""CUDA: NVIDIA's driver library, which is all a user needs.

interface   its functions and results by name      facts   a device as a target      driver   the device that is here
ptxas       what NVIDIA's compiler says of kernels, where it is installed
"""
