"""The space of candidates of a workload.

sketch/      structures, with the numbers left open      rules/       derivation rules, one file each
derive       sketches by the rules                       registry     rule sets by name, rules of the user's own
population/  candidates as rows of matrices              analysis     facts about accesses and reuse
default, default_tile, transforms, plain                 schedules without a search
"""
