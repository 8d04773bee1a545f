"""Structures: how every stage of a workload is computed, with the numbers left open.

sketch    nests, choices, sketches, candidates      rewrite   changes of the DAG: inline, cache, rfactor, alias
text      sketches as readable loops
"""
