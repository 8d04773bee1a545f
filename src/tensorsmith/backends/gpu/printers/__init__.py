"""Kernels as texts that compilers take. Two printers that check each other.

c            C, by a table of dialects (`dialects`): OpenCL C, CUDA C, HIP, Metal      expressions   the expressions of it
writer       LLVM's text of a kernel (`places`, `numbers`)                        machines      GPUs as LLVM knows them
llvm         by LLVM the text of GPUs: PTX, AMDGCN, SPIR-V                        names         identifiers of our own for names
"""
