"""Tensor expressions: definitions of computations, and nothing about how they run.

dtypes    element types            expr      expression nodes
affine    affine forms, ranges     text      readable text
workload  stages, DAG, JSON, key   define    the words to define one with
evaluate  the NumPy reference evaluator (the first oracle)
compare   random inputs, tolerances
flops     operation counts
inline    a stage computed where it is read
inplace   the inputs that an output may overwrite
"""
