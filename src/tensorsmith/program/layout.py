"""How a program's buffers lie in memory.

Arguments are dense. In memory of our own, neighbours along an outer dimension never lie a multiple of a certain distance apart:
those would share one set of the first cache, and copies and transforms write to many of them in turn. A gap that nobody uses keeps
them apart. How far is the machine's affair (`Spacing`).

Strides and sizes are integers, or arrays with one entry per candidate.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.workload import Workload
from tensorsmith.program.flags import both, flag
from tensorsmith.program.ir import Program, ProgramBuffer
from tensorsmith.program.linear import Num


@dataclass(frozen=True)
class Spacing:
    """Neighbours that would lie a multiple of `distance` bytes apart lie `gap` bytes further apart."""

    distance: int
    gap: int


@dataclass(frozen=True)
class Layout:
    """The distance in elements between neighbours of each dimension, outermost first, and how many elements the buffer takes."""

    strides: tuple[Num, ...]
    elements: Num
    dtype: str

    @property
    def bytes(self) -> Num:
        return self.elements * dtype(self.dtype).bytes


def layouts(program: Program, spacing: Spacing) -> Mapping[str, Layout]:
    """The layout of every buffer of a program."""
    dense = dense_tensors(program.workload)
    return {b.name: layout(b, None if b.name in dense else spacing) for b in program.buffers.values()}


@functools.lru_cache(maxsize=1024)
def dense_tensors(workload: Workload) -> frozenset[str]:
    """Those without gaps: arguments, and what is read through a reshape, which finds its element by counting."""
    counted = {x.tensor for stage in workload.stages for x in stage.reads if any(affine(index) is None for index in x.indices)}
    return frozenset({b.name for b in workload.inputs} | set(workload.outputs) | counted)


def layout(buffer: ProgramBuffer, spacing: Spacing | None) -> Layout:
    """The layout of a buffer, dense without a spacing."""
    size = dtype(buffer.dtype).bytes
    strides: list[Num] = []
    total: Num = 1
    for count in reversed(buffer.packed.shape if buffer.packed else buffer.shape):
        if strides and spacing is not None:
            meet = both(flag(count > 1), flag(total * size % spacing.distance == 0))
            total = total + meet * (spacing.gap // size)
        strides.insert(0, total)
        total = total * count
    return Layout(tuple(strides), total, buffer.dtype)
