"""What a cost model sees of programs, whatever machine they are for.

schema   what the numbers mean, by backend      rows   the numbers of many candidates
"""
