"""Sums over parts: products of small integers that are exact within a part, scaled and added up in f32 across parts.

    dot[part, i, j] = sum(i32(q[i, k]) * i32(w[j, k]), k of the part)
    y[i, j] = sum(f32(dot[part, i, j]) * scale[part, i, j], parts)

One tile of y goes through the parts: in each it computes `dot` in registers, then adds it to sums that stay in registers too.
Weights that are packed are read as one stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorsmith.backends.cpu.products import groups_pay
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, variables, walk
from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.program.grouping import factors, group_axis, group_steps
from tensorsmith.space.sketch.loops import NestLoop, written

_MOST_VECTORS = 4  # of a tile: more columns are no faster from memory, and fewer tiles are shared worse
_MOST_LAID_OUT = 16  # parts that are written one by one, so that shifts by their numbers are constants
_SHIFTS = ("shl", "shr")
_UNROLL = 16  # steps of a part in a row: all of them, in the formats there are
_REGISTERS = 3  # besides sums and products: a row's bytes, a mask, a scale
_OF_VECTOR, _OF_ROW = 0.5, 0.25  # loads and unpacking of a step, in products


@dataclass(frozen=True)
class PartSums:
    """The two stages, and their tile."""

    stage: Stage
    dot: Stage
    rows: int
    vectors: int
    lanes: int

    @property
    def row_axis(self) -> Axis | None:
        return self.stage.axes[-2] if len(self.stage.axes) > 1 else None

    def outer(self) -> list[NestLoop]:
        """Loops around the parts: weights of a panel are used for all rows before the next ones."""
        *rows, columns = self.stage.axes
        return [NestLoop(columns.name, 0), *(NestLoop(a.name, 0) for a in rows)]

    def tile(self) -> dict[NestLoop, int]:
        """The spatial loops of the tile, and their sizes."""
        found = {} if self.row_axis is None else {NestLoop(self.row_axis.name, 1): self.rows}
        return found | {NestLoop(self.stage.axes[-1].name, 1): self.vectors * self.lanes}

    def over_parts(self) -> str:
        """The reduction loops of the sum, as they are written: last those that bits are moved by, laid out."""
        names = dict(zip((a.name for a in self.dot.axes), (a.name for a in self.stage.reduce_axes)))  # of parts, which come first
        places = [variables(e.b) for e in walk(self.dot.body) if isinstance(e, Binary) and e.op in _SHIFTS]
        moved = {names[n] for n in set().union(*places) & names.keys()}
        laid_out = [a for a in self.stage.reduce_axes if a.name in moved]
        if math.prod(a.extent for a in laid_out) > _MOST_LAID_OUT:
            laid_out = []
        inside = {NestLoop(a.name, 0) for a in laid_out}
        loops = [NestLoop(a.name, 0) for a in self.stage.reduce_axes]
        return written([*(n for n in loops if n not in inside), *(n for n in loops if n in inside)], frozenset(inside))

    def of_part(self, target: CpuTarget) -> tuple[str, NestLoop | None, dict[str, int]]:
        """The register tile of the product, its group, and the sizes of its loops."""
        axis = group_axis(self.dot) if groups_pay(target, self.dot) else None
        spatial = [NestLoop(a.name, 0) for a in self.dot.axes[:-1]]
        sizes = {f"{self.dot.name}.unroll": _UNROLL}
        if axis is None:
            reduce, group = [NestLoop(a.name, 0) for a in self.dot.reduce_axes], None
        else:
            # halves of one byte are multiplied one after the other
            first, group = NestLoop(axis.name, 0), NestLoop(axis.name, 1)
            before = [a for a in self.dot.reduce_axes if a is not axis]
            again = self._read_again()
            others, inside = ([NestLoop(a.name, 0) for a in before if (a.name in again) is which] for which in (False, True))
            reduce = [*others, first, *inside, group]
            sizes[f"{self.dot.name}.{group}"] = group_steps(self.dot)
        return written([*spatial, *reduce, NestLoop(self.dot.axes[-1].name, 0)]), group, sizes

    def _read_again(self) -> set[str]:
        """The reduction axes along which a product reads the same bytes of weights."""
        both = factors(self.dot)
        assert both is not None
        lane = self.dot.axes[-1].name
        largest = max((x for x in self.dot.reads if lane in variables(x)), key=lambda x: len(variables(x)))
        return {a.name for a in self.dot.reduce_axes} - variables(largest)


def part_sums(workload: Workload, stage: Stage, target: CpuTarget) -> PartSums | None:
    """A stage as a sum over parts; None where it is no such sum."""
    dot = _dot(workload, stage)
    if dot is None or dtype(stage.dtype).lane_bytes != dtype(dot.dtype).lane_bytes:
        return None
    lanes = target.lanes(4)
    rows, vectors = _tile(stage.shape[-2] if len(stage.axes) > 1 else 1, -(-stage.shape[-1] // lanes), target)
    return PartSums(stage, dot, rows, vectors, lanes)


def _dot(workload: Workload, stage: Stage) -> Stage | None:
    """The integer sum that a stage reads once, at its own axes and those that it sums over itself."""
    if stage.reduction != "sum" or not stage.axes:
        return None
    for read in stage.reads:
        if not workload.is_stage(read.tensor) or workload.consumers[read.tensor] != (stage.name,):
            continue
        dot = workload.stage(read.tensor)
        if dot.dtype != "i32" or factors(dot) is None or sum(x.tensor == dot.name for x in stage.reads) != 1:
            continue
        forms = [affine(index) for index in read.indices]
        names = [next(iter(f.terms), "") if f is not None and list(f.terms.values()) == [1] and not f.offset else "" for f in forms]
        if names == [a.name for a in (*stage.reduce_axes, *stage.axes)] and dot.shape[-1] == stage.shape[-1]:
            return dot
    return None


def _tile(rows: int, vectors: int, target: CpuTarget) -> tuple[int, int]:
    """Rows and vectors of a tile: a product and a sum for each result, in registers."""
    found = []
    for v in range(1, min(vectors, _MOST_VECTORS) + 1):
        for r in range(1, rows + 1):
            if r * v > 1 and 2 * r * v + v + _REGISTERS > target.vector_registers:
                break
            tiles = -(-vectors // v)
            uneven = -(-tiles // target.cores) * target.cores / tiles if rows == 1 else 1.0
            work = -(-rows // r) * tiles * (r * v + _OF_VECTOR * v + _OF_ROW * r)
            found.append((work * uneven, -v, r))
    _, v, r = min(found)
    return r, -v
