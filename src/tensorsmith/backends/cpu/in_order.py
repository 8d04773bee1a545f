"""How operands are loaded on machines that take instructions in their order: all wait for a load that is used too soon.

Two ways. *Carried*: what the next step needs is loaded while the multiply-adds of this one run. *Gathered*: all that a few steps
need is loaded in front of them. The second is for machines whose multiply-adds take long: results are written in the order of
instructions, so a load behind a multiply-add waits until it would end after that, however early it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorsmith.backends.cpu.target import CpuTarget

_COPIES = 8  # steps of reduction loops in a row: what every round costs beside them is felt more than on other machines
_MOST_COPIES = 32  # of short loops that are written whole
_LOAD_CYCLES = 4  # until what was loaded can be used


def copies(extents: Sequence[int]) -> int:
    """Steps of reduction loops of those lengths in a row: of short inner loops all, so that vectors of factors fit."""
    whole = 1
    for extent in reversed(extents[1:]):
        if whole >= _COPIES or whole * extent > _MOST_COPIES:
            break
        whole *= extent
    return whole if whole >= _COPIES else max(1, min(math.prod(extents), _COPIES))


def gathers(target: CpuTarget) -> bool:
    return target.fma_latency > 2 * _LOAD_CYCLES


def group_of_steps(rows: int, vectors: int, row: int, target: CpuTarget, gathered: bool) -> int:
    """Steps whose operands are loaded together, of a tile of so many rows and vectors; 0 if there are too few registers for any.

    `row` is how many steps one load brings the factors of a row for.
    """
    free = target.vector_registers - rows * vectors - rows
    if not gathered:
        return 1 if free >= 2 * vectors else 0
    return max((n for n in range(1, row + 1) if row % n == 0 and n * vectors <= free), default=0)


def fits(rows: int, vectors: int, target: CpuTarget) -> bool:
    """Whether there are registers for a tile and its operands."""
    return group_of_steps(rows, vectors, target.lanes(), target, gathers(target)) > 0


def cycles(rows: int, vectors: int, target: CpuTarget) -> float:
    """Of one step of a tile: multiply-adds, or waiting for the last result; loads, beside which nothing runs; waiting for those."""
    row = target.lanes()
    loads = (rows / row + vectors) / target.fmas_per_cycle
    waiting = (
        (target.fma_latency - _LOAD_CYCLES) / group_of_steps(rows, vectors, row, target, gathered=True) if gathers(target) else 0.0
    )
    return max(rows * vectors / target.fmas_per_cycle, target.fma_latency) + loads + waiting
