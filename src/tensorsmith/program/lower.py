"""From a candidate to a loop program. One lowering, two uses: decisions are integers (code) or arrays (features).

Steps: bound inference (`space/sketch/regions.py`) finds which part of every attached stage its readers need at the attach point;
`_bind` splits each axis into its loops; `_build` nests them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorsmith.errors import Refusal
from tensorsmith.lang.affine import Affine, affine
from tensorsmith.lang.expr import Axis, Expr, Load, walk
from tensorsmith.lang.small import small_load
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.program.grouping import group_steps
from tensorsmith.program.ir import AxisBinding, Block, Loop, LoopVar, Node, PackedRead, Program, ProgramBuffer
from tensorsmith.program.linear import Linear, Num, ceil_div, maximum, minimum
from tensorsmith.program.positions import over_loops
from tensorsmith.space.sketch.copies import around, running
from tensorsmith.space.sketch.loops import THREAD, VTHREAD, AttachPoint, NestLoop
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.regions import Known, needed
from tensorsmith.space.sketch.sketch import Candidate, Sketch

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
    vars: dict[NestLoop, LoopVar]


class _Lowering:
    def __init__(self, sketch: Sketch, decisions: Mapping[str, Num]) -> None:
        self.sketch = sketch
        self.workload: Workload = sketch.rewritten
        self.decisions = decisions
        self.bound: dict[str, _Bound] = {}
        #: by bound inference, at each attach point, for one thread and for all of a block
        self.seen: dict[tuple[AttachPoint, bool], Known[tuple[Linear, Num]]] = {}

    def program(self) -> Program:
        for stage in reversed(self.workload.stages):  # consumers first: they tell what producers must give
            self.bound[stage.name] = self._bind(stage)
        buffers = self._buffers()
        roots = [n for s in self.workload.stages for n in self.sketch.nests if n.stage == s.name and n.at is None]
        others = {h.name: self.decisions[h.name] for h in self.sketch.numbers if h.kind in self.sketch.nest(h.stage).also}
        return Program(self.workload, buffers, tuple(self._build(n, 0) for n in roots), others)

    # -- bound inference -------------------------------------------------------------------------------------------

    def _bind(self, stage: Stage) -> _Bound:
        nest = self.sketch.nest(stage.name)
        region = self._whole(stage) if nest.at is None else self._needed(stage, nest.at)
        for a in stage.reduce_axes:
            region[a.name] = (Linear(), a.extent)
        if nest.follows is not None:
            return self._follow(nest, stage, region)
        axes: dict[str, AxisBinding] = {}
        variables: dict[NestLoop, LoopVar] = {}
        reduce_names = {a.name for a in stage.reduce_axes}
        for axis in stage.all_axes:
            origin, length = region[axis.name]
            local = Linear()
            parts = nest.parts[axis.name]
            sizes = [self.decisions[f"{stage.name}.{axis.name}.{p}"] for p in range(1, parts)]
            if nest.group == NestLoop(axis.name, parts - 1):  # always of all its steps, however few there are
                steps = group_steps(stage, nest.group_size)
                counts = [*split(ceil_div(length, steps), sizes[:-1]), steps]
            else:
                counts = split(length, sizes)
            stride: Num = 1
            for p in reversed(range(parts)):
                loop, name = NestLoop(axis.name, p), f"{stage.name}.{axis.name}.{p}"
                bound = nest.loops.bindings.get(loop, "")
                var = LoopVar(name, stage.name, axis.name, counts[p], stride, axis.name in reduce_names, bound)
                variables[loop] = var
                local = local + Linear({var.name: stride})
                stride = stride * counts[p]
            axes[axis.name] = AxisBinding(origin, local, length, axis.extent)
        return _Bound(nest, stage, region, axes, variables)

    def _follow(self, nest: Nest, stage: Stage, region: Region) -> _Bound:
        """A copy for another nest, split just as that nest's loops run through it inside the attach point."""
        axes: dict[str, AxisBinding] = {}
        variables: dict[NestLoop, LoopVar] = {}
        for axis, index in zip(stage.axes, self._copied(nest).indices):
            origin, length = region[axis.name]
            local = Linear()
            followed = [v for v in self._running(nest) if v.name in index.terms]
            if len(followed) != nest.parts.get(axis.name, 0):
                raise Refusal("cannot follow", f"{nest.stage}.{axis.name}: {nest.follows} has {len(followed)} loops there")
            for p, v in enumerate(followed):
                var = LoopVar(f"{stage.name}.{axis.name}.{p}", stage.name, axis.name, v.count, index.terms[v.name], False)
                variables[NestLoop(axis.name, p)] = var
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
        return [self.bound[one.stage].vars[one.loop] for one in running(self.sketch.by_stage, nest)]

    def _whole(self, stage: Stage) -> Region:
        return {a.name: (Linear(), a.extent) for a in stage.axes}

    def _needed(self, stage: Stage, point: AttachPoint) -> Region:
        """The region of a stage that its readers need inside an attach point."""
        if not self.workload.consumers[stage.name]:
            raise Refusal("no reader", f"{stage.name} is attached but nothing reads it")
        of_block = self.sketch.nest(stage.name).loops.is_cooperative
        return needed(
            self.workload, stage, point.stage, _Regions(self, point, of_block), self.seen.setdefault((point, of_block), {})
        )

    def ranges(self) -> dict[str, Num]:
        return {v.name: v.count for b in self.bound.values() for v in b.vars.values()}

    def over_threads(self, start: Linear, length: Num) -> tuple[Linear, Num]:
        """A region of one thread as that of all threads of its block."""
        shared = {v.name: v.count for b in self.bound.values() for v in b.vars.values() if v.bound in (VTHREAD, THREAD)}
        for name in start.terms.keys() & shared.keys():
            length = length + start.terms[name] * (shared[name] - 1)
        return Linear({n: c for n, c in start.terms.items() if n not in shared}, start.offset), length

    # -- storage ---------------------------------------------------------------------------------------------------

    def _buffers(self) -> dict[str, ProgramBuffer]:
        buffers: dict[str, ProgramBuffer] = {}
        for b in self.workload.inputs:
            zero = tuple(Linear() for _ in b.shape)
            kind = "constant" if b.constant else "input"
            buffers[b.name] = ProgramBuffer(b.name, b.dtype, b.shape, kind, zero, self._packing(b.name, b.constant))
        for s in self.workload.stages:
            bound = self.bound[s.name]
            if bound.nest.at is None:
                kind = "output" if s.name in self.workload.outputs else "scratch"
                buffers[s.name] = ProgramBuffer(s.name, s.dtype, s.shape, kind, tuple(Linear() for _ in s.axes))
            else:
                shape = tuple(bound.region[a.name][1] for a in s.axes)
                if "pad" in bound.nest.also:
                    shape = (*shape[:-1], shape[-1] + self.decisions[f"{s.name}.pad"])
                origin = tuple(bound.region[a.name][0] for a in s.axes)
                kind = "shared" if bound.nest.loops.is_cooperative else "local"
                owner = bound.nest.at.stage
                turns = self.decisions[f"{owner}.buffers"] if "buffers" in self.sketch.nest(owner).also else 1
                buffers[s.name] = ProgramBuffer(s.name, s.dtype, shape, kind, origin, buffers=turns)
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
                own[v.name] = bound.vars[NestLoop(axis.name, p)].name
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
        ((stage, read),) = reads
        small = any(small_load(e) is read for e in walk(stage.body))
        return replace(self._packed_read(tensor, nest, read), small=small)

    def _packed_read(self, tensor: str, nest: Nest, read: Load) -> PackedRead:
        """A tensor with a dimension for each loop that runs through it; the lanes of a vector are neighbours, and the steps that a
        lane takes at once still nearer ones."""
        bound = self.bound[nest.stage]
        indices = []
        for index in read.indices:
            form = index_form(index, bound.axes)
            if form is None:
                raise Refusal("cannot pack", f"{tensor} is not read at affine indices")
            indices.append(form)
        used = {n for i in indices for n in i.terms}
        outside = [self.bound[one.stage].vars[one.loop] for one in around(self.sketch.by_stage, nest)]
        every = outside + [bound.vars[n] for n in nest.loops.all]
        last = [bound.vars[n].name for n in (nest.vector, nest.group) if n is not None]
        loops = sorted((v for v in every if v.name in used), key=lambda v: last.index(v.name) + 1 if v.name in last else 0)
        return PackedRead(tensor, tuple(loops), tuple(indices))

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
            parallel = nest.at is None and not nest.loops.bound and _is_parallel(self.decisions[f"{nest.stage}.parallel"], depth)
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
            bound.vars[nest.group].name if nest.group else None,
        )

    def _attached(self, nest: Nest, depth: int) -> tuple[Node, ...]:
        return tuple(self._build(n, 0) for n in self.sketch.attached(nest.stage, depth))


@dataclass(frozen=True)
class _Regions:
    """Regions, with where they start, for bound inference inside one attach point."""

    lowering: _Lowering
    point: AttachPoint
    of_block: bool  # for all threads of a block

    def whole(self, stage: Stage, axis: Axis) -> tuple[Linear, Num]:
        return Linear(), axis.extent

    def inside(self, stage: Stage, whole_tiles: bool) -> Region:
        """Axis values of a nest inside its first outer loops: those loops are fixed, the others run."""
        bound = self.lowering.bound[stage.name]
        fixed = set(bound.nest.outer[: self.point.depth])
        region: Region = {}
        for axis in bound.stage.all_axes:
            binding = bound.axes[axis.name]
            start, length = binding.origin, binding.length
            if whole_tiles:
                first = bound.vars[NestLoop(axis.name, 0)]
                length = first.count * first.stride
            for p in range(bound.nest.parts.get(axis.name, 0)):
                loop = NestLoop(axis.name, p)
                if loop in fixed:
                    var = bound.vars[loop]
                    start = start + Linear({var.name: var.stride})
                    length = minimum(length, var.stride)
            region[axis.name] = self.lowering.over_threads(start, length) if self.of_block else (start, length)
        return region

    def touched(self, stage: Stage, axis: Axis, index: Affine | None, seen: Mapping[str, tuple[Linear, Num]]) -> tuple[Linear, Num]:
        if index is None:
            return Linear(), axis.extent
        start = Linear({}, index.offset)
        length: Num = 1
        for name, coefficient in index.terms.items():
            origin, count = seen[name]
            start = start + origin.scaled(coefficient)
            if coefficient < 0:
                start = start + coefficient * (count - 1)
            length = length + abs(coefficient) * (count - 1)
        return start, length

    def together(self, stage: Stage, axis: Axis, parts: Sequence[tuple[Linear, Num]]) -> tuple[Linear, Num]:
        found = functools.reduce(functools.partial(_union, axis), parts)
        return _within(found, axis.extent, self.lowering.ranges())

    def computed(self, stage: Stage, needed: Region) -> Region:
        """Where a stage computes a whole axis, it does so wherever it is read."""
        region = dict(needed)
        for a in stage.axes:
            origin, length = self.lowering.bound[stage.name].region[a.name]
            if not origin.terms and isinstance(length, int) and length == a.extent:
                region[a.name] = (origin, length)
        return region


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


def _union(axis: Axis, a: tuple[Linear, Num], b: tuple[Linear, Num]) -> tuple[Linear, Num]:
    """The region of an axis that covers two; the whole axis where they move differently."""
    (start_a, length_a), (start_b, length_b) = a, b
    low = minimum(start_a.offset, start_b.offset)
    high = maximum(start_a.offset + length_a, start_b.offset + length_b)
    same: bool | np.ndarray[Any, Any] = True
    for name in {**start_a.terms, **start_b.terms}:
        same = same & (start_a.terms.get(name, 0) == start_b.terms.get(name, 0))
    if not isinstance(same, bool):  # differs from candidate to candidate
        return Linear(start_a.terms, low).scaled(np.where(same, 1, 0)), np.where(same, high - low, axis.extent)
    return (Linear(start_a.terms, low), high - low) if same else (Linear(), axis.extent)


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
