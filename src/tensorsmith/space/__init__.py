"""The space of candidates of a workload.

sketch     nests, choices, candidates       rewrite    changes of the DAG: inline, cache, rfactor, alias
analysis   facts about accesses and reuse   rules/     derivation rules, one file each
derive     sketches by the rules            registry   rule sets by name, rules of the user's own
population rows and matrices                geometry   sizes of whole populations
sampling   random rows                      evolve     mutation and crossover
domains    what is legal, and repair        embed      the row of a given candidate
seeds      hardware-aligned rows            default, plain  schedules without a search
text       sketches as loops
"""
