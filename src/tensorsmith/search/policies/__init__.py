"""Policies, one file each; what they have in common is in `search/policy.py`, and docs/policies.md tells them apart.

tensorsmith   ours                              random         samples, as they come
ansor         the paper's, and its ablations    beam           incomplete programs, pruned by the model
autotvm       templates with knobs              flextensor     steps from point to point of one general schedule
halide        beam search over stages           metaschedule   Ansor's rounds with other constants
"""
