"""Ansor's own 164 features of a statement, as TVM 0.14 computes them (`src/auto_scheduler/feature.cc`).

schema    what the columns mean        accesses   the eighteen numbers of a buffer
values    all numbers of one store     extract    rows of many candidates
"""
