"""Post-dominators: where all paths from a node meet again.

conv -> {add, mul} -> sum -> relu        conv: sum    add: sum    mul: sum    sum: relu
"""

from __future__ import annotations

from collections.abc import Sequence


def post_dominators(readers: Sequence[Sequence[int]], leaves: Sequence[bool]) -> list[int | None]:
    """For each node the first one that all paths from it lead through; None where they only meet outside.

    `readers` are the nodes that read each, all of them behind it; one that `leaves` is needed outside as well.
    """
    found: list[int | None] = [None] * len(readers)
    depth = [0] * len(readers)
    for n in reversed(range(len(readers))):
        if leaves[n] or not readers[n]:
            continue
        common: int | None = readers[n][0]
        for other in readers[n][1:]:
            common = _meeting(common, other, found, depth)
        found[n] = common
        depth[n] = depth[common] + 1 if common is not None else 0
    return found


def _meeting(a: int | None, b: int | None, parent: list[int | None], depth: list[int]) -> int | None:
    """The lowest common ancestor in the tree of post-dominators."""
    while a is not None and b is not None and a != b:
        if depth[a] < depth[b]:
            b = parent[b]
        elif depth[b] < depth[a]:
            a = parent[a]
        else:
            a, b = parent[a], parent[b]
    return a if a == b else None
