"""Policies, one file each, with the name of the file; what they have in common is in `search/policy.py`.

tensorsmith   ours      ansor   the paper's      random   samples, as they come
"""
