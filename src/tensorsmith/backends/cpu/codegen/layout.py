"""How a program's buffers lie in memory.

Arguments are dense. In memory of our own, neighbours along an outer dimension never lie a multiple of a page apart, because those
share one set of the first cache, and copies and transforms write to many of them in turn: a cache line that nobody uses keeps them
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorsmith.backends.cpu.target import CpuTarget as Target
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.program.ir import Program, ProgramBuffer, blocks

_SET_DISTANCE = 4096  # bytes from one line of a set of the first cache to the next; the size of a page nearly everywhere


@dataclass(frozen=True)
class Layout:
    """The distance in elements between neighbours of each dimension, outermost first, and what the buffer takes."""

    strides: tuple[int, ...]
    bytes: int


def layouts(program: Program, target: Target) -> Mapping[str, Layout]:
    # a read through a reshape finds its element by counting, so those are dense
    counted = {
        x.tensor
        for node in program.body
        for b in blocks(node)
        for x in b.stage.reads
        if any(affine(index) is None for index in x.indices)
    }
    return {
        b.name: _layout(b, target.line_bytes if b.kind in ("scratch", "local") and b.name not in counted else 0)
        for b in program.buffers.values()
    }


def _layout(b: ProgramBuffer, gap_bytes: int) -> Layout:
    size = dtype(b.dtype).bytes
    shape = tuple(int(n) for n in (b.packed.shape if b.packed else b.shape))
    strides: list[int] = []
    total = 1
    for n in reversed(shape):
        if strides and n > 1 and total * size % _SET_DISTANCE == 0:
            total += gap_bytes // size
        strides.insert(0, total)
        total *= n
    return Layout(tuple(strides), total * size)
