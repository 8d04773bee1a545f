"""Loops of a GPU's programs that several parts ask for."""

from __future__ import annotations

from collections.abc import Iterable

from tensorsmith.program.ir import Loop, LoopVar, Node
from tensorsmith.space.sketch.loops import GRID


def grid_loops(root: Node, own: Iterable[LoopVar]) -> list[LoopVar]:
    """The leading loops of a nest that the threads of all blocks share: those that say so, or all that can be where none of its
    `own` loops says anything."""
    plain = not any(v.bound for v in own)
    found, node = [], root
    while isinstance(node, Loop) and not node.var.reduce and (plain or node.var.bound == GRID):
        found.append(node.var)
        if len(node.body) > 1:
            break
        node = node.body[0]
    return found
