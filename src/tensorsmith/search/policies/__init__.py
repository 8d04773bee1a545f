"""Policies, one file each; what they have in common is in `search/policy.py`, and docs/policies.md tells them apart.

tensorsmith   ours                              ansor          the paper's, and its ablations
random        samples, as they come             ablations      ours without one part

Those of other systems are plug-ins: `tensorsmith/baselines/`.
"""
