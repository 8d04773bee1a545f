"""Structures: how every stage of a workload is computed, with the numbers left open.

loops     loops and attach points, parsed            rewrite   changes of the DAG: inline, cache, rfactor, alias
nest      how one stage is computed                  regions   bound inference: how much of an attached stage is needed
sketch    nests, choices, sketches, candidates       copies    the loops of a copy made for another nest
check     whether a structure makes sense            text      sketches as readable loops
"""
