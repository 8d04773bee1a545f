"""The space of candidates of a workload. Nothing here knows a machine: what depends on it, a backend's `Tactics` say.

sketch/      structures, with the numbers left open      rules/       derivation rules, one file each
holes/       kinds of holes, one file each               derive       sketches by the rules
population/  candidates as rows of matrices              tactics      what a kind of machine tells the space
analysis     facts about accesses and reuse              transforms   chains of transforms (Winograd), cut into slices
plain        the schedule that is always legal
"""
