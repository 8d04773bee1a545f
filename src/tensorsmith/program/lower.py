"""From a candidate to a loop program. One lowering, two uses: decisions are integers (code) or arrays (features).

Steps: `_regions` finds which part of every attached stage its readers need at the attach point (bound inference);
`_bind` splits each axis into its loops; `_build` nests them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorsmith.errors import Refusal
from tensorsmith.lang.affine import affine
from tensorsmith.lang.expr import Expr, Load
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.program.ir import AxisBinding, Block, Loop, LoopVar, Node, PackedRead, Program, ProgramBuffer
from tensorsmith.program.linear import Linear, Num, ceil_div, maximum, minimum
from tensorsmith.program.positions import over_loops
from tensorsmith.space.sketch.sketch import Candidate, Nest, Sketch

Region = dict[str, tuple[Linear, Num]]  # axis -> (where it starts, how many)


def lower(candidate: Candidate) -> Program:
    """The loop program of one candidate."""
    return lower_decisions(candidate.sketch, candidate.decisions)


def lower_decisions(sketch: Sketch, decisions: Mapping[str, Num]) -> Program:
    """The loop program of a sketch; every decision an integer, or an array with an entry per candidate."""
    return _Lowering(sketch, decisions).program()


@dataclass(frozen=True)
class _Bound:
    """A nest with its loops and axis values worked out."""

    nest: Nest
    stage: Stage
    region: Region
    axes: dict[str, AxisBinding]
    vars: dict[str, LoopVar]  # by loop name within the nest, "i.0"


class _Lowering:
    def __init__(self, sketch: Sketch, decisions: Mapping[str, Num]) -> None:
        self.sketch = sketch
        self.workload: Workload = sketch.rewritten
        self.decisions = decisions
        self.bound: dict[str, _Bound] = {}
        self.seen: dict[tuple[str, tuple[str, int], bool], Region] = {}

    def program(self) -> Program:
        for stage in reversed(self.workload.stages):  # consumers first: they tell what producers must give
            self.bound[stage.name] = self._bind(stage)
        buffers = self._buffers()
        roots = [n for s in self.workload.stages for n in self.sketch.nests if n.stage == s.name and n.at is None]
        return Program(self.workload, buffers, tuple(self._build(n, 0) for n in roots))

    # -- bound inference -------------------------------------------------------------------------------------------

    def _bind(self, stage: Stage) -> _Bound:
        nest = self.sketch.nest(stage.name)
        region = self._whole(stage) if nest.target is None else self._needed(stage, nest.target)
        for a in stage.reduce_axes:
            region[a.name] = (Linear(), a.extent)
        if nest.follows is not None:
            return self._follow(nest, stage, region)
        axes: dict[str, AxisBinding] = {}
        variables: dict[str, LoopVar] = {}
        reduce_names = {a.name for a in stage.reduce_axes}
        for axis in stage.all_axes:
            origin, length = region[axis.name]
            local = Linear()
            parts = nest.parts[axis.name]
            counts = split(length, [self.decisions[f"{stage.name}.{axis.name}.{p}"] for p in range(1, parts)])
            stride: Num = 1
            for p in reversed(range(parts)):
                var = LoopVar(f"{stage.name}.{axis.name}.{p}", stage.name, axis.name, counts[p], stride, axis.name in reduce_names)
                variables[f"{axis.name}.{p}"] = var
                local = local + Linear({var.name: stride})
                stride = stride * counts[p]
            axes[axis.name] = AxisBinding(origin, local, length, axis.extent)
        return _Bound(nest, stage, region, axes, variables)

    def _follow(self, nest: Nest, stage: Stage, region: Region) -> _Bound:
        """A copy for another nest, split just as that nest's loops run through it inside the attach point."""
        axes: dict[str, AxisBinding] = {}
        variables: dict[str, LoopVar] = {}
        for axis, index in zip(stage.axes, self._copied(nest).indices):
            origin, length = region[axis.name]
            local = Linear()
            followed = [v for v in self._running(nest) if v.name in index.terms]
            if len(followed) != nest.parts.get(axis.name, 0):
                raise Refusal("cannot follow", f"{nest.stage}.{axis.name}: {nest.follows} has {len(followed)} loops there")
            for p, v in enumerate(followed):
                var = LoopVar(f"{stage.name}.{axis.name}.{p}", stage.name, axis.name, v.count, index.terms[v.name], False)
                variables[f"{axis.name}.{p}"] = var
                local = local + Linear({var.name: var.stride})
            axes[axis.name] = AxisBinding(origin, local, length, axis.extent)
        return _Bound(nest, stage, region, axes, variables)

    def _copied(self, nest: Nest) -> PackedRead:
        """How the nest that is followed reads the copy."""
        reader = self.workload.stage(str(nest.follows))
        reads = [x for x in reader.reads if x.tensor == nest.stage]
        if len(reads) != 1 or self.workload.consumers[nest.stage] != (reader.name,):
            raise Refusal("cannot follow", f"{nest.stage} must be read once, by {nest.follows}")
        return self._packed_read(nest.stage, self.sketch.nest(reader.name), reads[0])

    def _running(self, nest: Nest) -> list[LoopVar]:
        """The loops around and in the nest that is followed which run inside the copy's attach point."""
        reader = self.sketch.nest(str(nest.follows))
        every = self._around(reader) + [self.bound[reader.stage].vars[n] for n in reader.outer + reader.tile]
        if nest.target is None:
            return every
        stage, depth = nest.target
        fixed = self._around(self.sketch.nest(stage)) + [self.bound[stage].vars[n] for n in self.sketch.nest(stage).outer[:depth]]
        names = {v.name for v in fixed}
        return [v for v in every if v.name not in names]

    def _whole(self, stage: Stage) -> Region:
        return {a.name: (Linear(), a.extent) for a in stage.axes}

    def _needed(self, stage: Stage, point: tuple[str, int], whole_tiles: bool = False) -> Region:
        """The region of a stage that its readers need inside an attach point.

        A reader that is attached deeper computes whole tiles, even where the last one is needed in part only (`whole_tiles`).
        """
        found: Region | None = None
        for reader in self.workload.consumers[stage.name]:
            seen = self._seen(self.workload.stage(reader), point, whole_tiles)
            for load in self.workload.stage(reader).reads:
                if load.tensor == stage.name:
                    one = self._read_region(stage, load, seen)
                    found = one if found is None else _union(stage, found, one)
        if found is None:
            raise Refusal("no reader", f"{stage.name} is attached but nothing reads it")
        return {a.name: _within(found[a.name], a.extent, self._var_ranges()) for a in stage.axes}

    def _seen(self, reader: Stage, point: tuple[str, int], whole_tiles: bool) -> Region:
        """What values the axes of a reader take inside an attach point; many ways may lead to it, so it is worked out once."""
        key = (reader.name, point, whole_tiles)
        if key not in self.seen:
            self.seen[key] = self._seen_first(reader, point, whole_tiles)
        return self.seen[key]

    def _seen_first(self, reader: Stage, point: tuple[str, int], whole_tiles: bool) -> Region:
        if reader.name == point[0]:
            return self._tile_region(self.bound[reader.name], point[1], whole_tiles)
        region = self._needed(reader, point, whole_tiles=True)
        for a in reader.axes:
            origin, length = self.bound[reader.name].region[a.name]
            if not origin.terms and isinstance(length, int) and length == a.extent:
                region[a.name] = (origin, length)
        for a in reader.reduce_axes:
            region[a.name] = (Linear(), a.extent)
        return region

    def _tile_region(self, bound: _Bound, depth: int, whole_tiles: bool) -> Region:
        """Axis values of a nest inside its first `depth` outer loops: those loops are fixed, the others run."""
        fixed = set(bound.nest.outer[:depth])
        region: Region = {}
        for axis in bound.stage.all_axes:
            binding = bound.axes[axis.name]
            start, length = binding.origin, binding.length
            if whole_tiles:
                first = bound.vars[f"{axis.name}.0"]
                length = first.count * first.stride
            for p in range(bound.nest.parts.get(axis.name, 0)):
                name = f"{axis.name}.{p}"
                if name in fixed:
                    var = bound.vars[name]
                    start = start + Linear({var.name: var.stride})
                    length = minimum(length, var.stride)
            region[axis.name] = (start, length)
        return region

    def _read_region(self, stage: Stage, load: Load, seen: Region) -> Region:
        region: Region = {}
        for axis, index in zip(stage.axes, load.indices):
            form = affine(index)
            if form is None:
                region[axis.name] = (Linear(), axis.extent)
                continue
            start = Linear({}, form.offset)
            length: Num = 1
            for name, coefficient in form.terms.items():
                origin, count = seen[name]
                start = start + origin.scaled(coefficient)
                if coefficient < 0:
                    start = start + coefficient * (count - 1)
                length = length + abs(coefficient) * (count - 1)
            region[axis.name] = (start, length)
        return region

    def _var_ranges(self) -> dict[str, Num]:
        return {v.name: v.count for b in self.bound.values() for v in b.vars.values()}

    # -- storage ---------------------------------------------------------------------------------------------------

    def _buffers(self) -> dict[str, ProgramBuffer]:
        buffers: dict[str, ProgramBuffer] = {}
        for b in self.workload.inputs:
            zero = tuple(Linear() for _ in b.shape)
            kind = "constant" if b.constant else "input"
            buffers[b.name] = ProgramBuffer(b.name, b.dtype, b.shape, kind, zero, self._packing(b.name, b.constant))
        for s in self.workload.stages:
            bound = self.bound[s.name]
            if bound.nest.target is None:
                kind = "output" if s.name in self.workload.outputs else "scratch"
                buffers[s.name] = ProgramBuffer(s.name, s.dtype, s.shape, kind, tuple(Linear() for _ in s.axes))
            else:
                shape = tuple(bound.region[a.name][1] for a in s.axes)
                origin = tuple(bound.region[a.name][0] for a in s.axes)
                buffers[s.name] = ProgramBuffer(s.name, s.dtype, shape, "local", origin)
            if bound.nest.follows is not None:
                buffers[s.name] = replace(buffers[s.name], packed=self._copy_layout(bound))
        return buffers

    def _copy_layout(self, bound: _Bound) -> PackedRead:
        """A copy's elements in the order in which the nest it is made for reads them."""
        whole = self._copied(bound.nest)
        running = self._running(bound.nest)
        names = {v.name for v in running}
        own: dict[str, str] = {}
        for axis, index in zip(bound.stage.axes, whole.indices):
            for p, v in enumerate(v for v in running if v.name in index.terms):
                own[v.name] = bound.vars[f"{axis.name}.{p}"].name
        loops = tuple(v for v in whole.loops if v.name in names)
        return PackedRead(bound.stage.name, loops, whole.indices, tuple(own[v.name] for v in loops))

    def _packing(self, tensor: str, constant: bool) -> PackedRead | None:
        """The loop-order layout of a tensor, where a nest asks for one."""
        askers = [n for n in self.sketch.nests if tensor in n.packed]
        if not askers:
            return None
        nest = askers[0]
        reads = [(s, x) for s in self.workload.stages for x in s.reads if x.tensor == tensor]
        if not constant or len(askers) > 1 or len(reads) != 1:
            raise Refusal("cannot pack", f"{tensor} must be a constant that is read once")
        return self._packed_read(tensor, nest, reads[0][1])

    def _packed_read(self, tensor: str, nest: Nest, read: Load) -> PackedRead:
        """A tensor with a dimension for each loop that runs through it; the lanes of a vector are neighbours."""
        bound = self.bound[nest.stage]
        indices = []
        for index in read.indices:
            form = index_form(index, bound.axes)
            if form is None:
                raise Refusal("cannot pack", f"{tensor} is not read at affine indices")
            indices.append(form)
        used = {n for i in indices for n in i.terms}
        around = self._around(nest) + [bound.vars[n] for n in nest.outer + nest.tile]
        last = bound.vars[nest.vector].name if nest.vector else None
        loops = sorted((v for v in around if v.name in used), key=lambda v: v.name == last)
        return PackedRead(tensor, tuple(loops), tuple(indices))

    def _around(self, nest: Nest) -> list[LoopVar]:
        """The loops of other nests around this one, outermost first."""
        if nest.target is None:
            return []
        stage, depth = nest.target
        outer = self.bound[stage]
        return self._around(outer.nest) + [outer.vars[n] for n in outer.nest.outer[:depth]]

    # -- the tree --------------------------------------------------------------------------------------------------

    def _build(self, nest: Nest, depth: int) -> Node:
        """The node of a nest inside its first `depth` outer loops."""
        bound = self.bound[nest.stage]
        if depth < len(nest.outer):
            var = bound.vars[nest.outer[depth]]
            if var.reduce and bound.axes[var.axis].extent == 0:
                raise Refusal("empty reduction", f"{var.name} never runs, so nothing would be stored; put it behind the bar")
            inner = self._build(nest, depth + 1)
            # what is attached inside all outer loops belongs to the block: it is computed per register tile
            before = self._attached(nest, depth + 1) if depth + 1 < len(nest.outer) else ()
            parallel = nest.target is None and _is_parallel(self.decisions[f"{nest.stage}.parallel"], depth)
            unrolled = nest.outer[depth] in nest.unrolled
            return Loop(var, parallel, unrolled, bound.axes[var.axis], (*before, inner))
        tile = [bound.vars[n] for n in nest.tile]
        return Block(
            bound.stage,
            bound.axes,
            tuple(v for v in tile if not v.reduce),
            tuple(v for v in tile if v.reduce),
            tuple(v for v in (bound.vars[n] for n in nest.outer) if v.reduce),
            bound.vars[nest.vector].name if nest.vector else None,
            self.decisions[f"{nest.stage}.unroll"] if bound.stage.reduction else 1,
            frozenset(bound.vars[n].name for n in nest.tile if n in nest.unrolled),
            self._attached(nest, depth),
        )

    def _attached(self, nest: Nest, depth: int) -> tuple[Node, ...]:
        return tuple(self._build(n, 0) for n in self.sketch.attached(nest.stage, depth))


def _is_parallel(count: Num, depth: int) -> bool:
    if isinstance(count, (int, np.integer)):
        return depth < int(count)
    return bool(np.any(depth < count))


def split(length: Num, sizes: list[Num]) -> list[Num]:
    """Counts of the parts of an axis, outermost first, for given inner sizes. Sizes too large for what is left are cut.

    >>> split(100, [4, 8])
    [4, 4, 8]
    """
    counts: list[Num] = []
    left = length
    for size in reversed(sizes):
        used = maximum(1, minimum(size, left))
        counts.insert(0, used)
        left = ceil_div(left, used)
    counts.insert(0, left)
    return counts


def _union(stage: Stage, a: Region, b: Region) -> Region:
    region: Region = {}
    for axis in stage.axes:
        (start_a, length_a), (start_b, length_b) = a[axis.name], b[axis.name]
        low = minimum(start_a.offset, start_b.offset)
        high = maximum(start_a.offset + length_a, start_b.offset + length_b)
        same: bool | np.ndarray[Any, Any] = True
        for name in {**start_a.terms, **start_b.terms}:
            same = same & (start_a.terms.get(name, 0) == start_b.terms.get(name, 0))
        if not isinstance(same, bool):  # differs from candidate to candidate
            region[axis.name] = (Linear(start_a.terms, low).scaled(np.where(same, 1, 0)), np.where(same, high - low, axis.extent))
        else:
            region[axis.name] = (Linear(start_a.terms, low), high - low) if same else (Linear(), axis.extent)
    return region


def _within(part: tuple[Linear, Num], extent: int, ranges: dict[str, Num]) -> tuple[Linear, Num]:
    """A region cut to its axis; the whole axis where the region would cover it or could start before it."""
    start, length = part
    lowest = start.offset
    for name, coefficient in start.terms.items():
        lowest = lowest + minimum(0, coefficient * (ranges[name] - 1))
    whole = (length >= extent) | (lowest < 0)
    if isinstance(whole, bool):
        if not whole:
            return part
        # loops that run once keep their place in the form: a copy that follows this nest has them too
        still = start.offset == 0 and all(ranges[name] == 1 for name in start.terms)
        return (start if still else Linear()), extent
    return start.scaled(np.where(whole, 0, 1)), np.where(whole, extent, length)


def index_form(index: Expr, axes: Mapping[str, AxisBinding]) -> Linear | None:
    """An index of a load as a linear form of loop variables; None where it is not affine."""
    form = affine(index)
    return None if form is None else over_loops(form, axes)
