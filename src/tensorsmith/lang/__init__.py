"""Tensor expressions: definitions of computations, and nothing about how they run.

dtypes     element types
nodes      the nodes of expressions; equal ones are one object (`interned`)
visit      ways through nodes
text       readable text
expr       nodes, ways, and what is made of expressions: import from here
expr_json  expressions as JSON
affine     affine forms, ranges
flat       positions in memory, whatever the shape
stage      one tensor computation
check      what has to hold of a workload (`in_bounds`: its loads)
workload   a DAG of stages, its JSON form and its keys
define     the words to define one with: tensors, plain reductions, operations
functions  functions that are put together of operations
reductions means, conditions, positions: put together of plain reductions
words      all of these words in one list
evaluate   the NumPy reference evaluator (the first oracle)
compare    random inputs, tolerances
flops      operation counts (`cost`: counted once for what is shared)
index_check  the workload that looks at indices from data beforehand
inline     a stage computed where it is read
inplace    the inputs that an output may overwrite
"""
