"""Policies and cost models of other systems, as plug-ins: what ours is compared with, and how papers are reproduced.

autotvm/       templates with knobs, tuners, its trees on loops or knobs, and TreeGRU
flextensor     steps from point to point of one general schedule
halide/        beam search over stages, and its network that gives the coefficients of cost terms
metaschedule   Ansor's rounds with other constants
beam           incomplete programs, pruned by the model

The rest of the package imports none of it: the registries find it by the entry points of `pyproject.toml`, as they find those
of any other package. `knobs`, `tuners`, `annealing` and `ledger` are what several of these systems share. docs/policies.md
tells the policies apart and says what is not as in the papers.
"""
