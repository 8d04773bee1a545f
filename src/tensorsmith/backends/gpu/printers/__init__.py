"""Kernels as texts that compilers take. Two printers that check each other.

c            C, by a table of dialects (`dialects`): OpenCL C, CUDA C, HIP      expressions   the expressions of it
llvm         LLVM's text, and by LLVM that of GPUs: PTX, AMDGCN, SPIR-V
"""
