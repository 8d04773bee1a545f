"""The default schedule: a decent candidate for any workload from the target's facts alone, without a search.

Cheap stages are inlined, padding disappears into its reader, a reshaped output is written in place. A stage that reuses
its operands gets a register tile chosen by counting cycles, with its constant operands packed; its elementwise reader
is computed on the tile. What is left is nested row by row: reductions run in lanes along the row, and stages that share
the leading axes share the loops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorsmith.backends.cpu.default_tile import STEPS_PER_THREAD, TilePlan
from tensorsmith.backends.cpu.parts import PartSums, part_sums
from tensorsmith.backends.cpu.products import widens
from tensorsmith.backends.cpu.slicing import is_cut
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import Refusal
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Load, variables
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.program.grouping import lane_bytes
from tensorsmith.space.analysis import (
    access,
    chooses_by,
    common_outer_axes,
    elementwise_match,
    has_branch,
    is_expensive,
    is_movement,
    is_padding,
    is_reshape,
    is_strictly_inlinable,
    lane_axis,
    needs_tiling,
    selecting_axes,
    transposing_axis,
)
from tensorsmith.space.reshaping import reshaped_source
from tensorsmith.space.rules.constant import selecting_nest
from tensorsmith.space.sketch.copies import follow
from tensorsmith.space.sketch.loops import AttachPoint, NestLoop, written
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import Alias, CacheRead, Inline, Reshape, Rewrite, Rfactor, Widen, apply_rewrites
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.space.transforms import is_transform, slices

_READS_FOR_A_COPY = 8  # how often an operand must be read before a copy in loop order pays
_L2_WAYS = 8  # of the second cache, as most have: lines at addresses that differ by a multiple of its size over them
_WORK_TO_SHARE = 1 << 13  # points below which starting the other threads does not pay
_WORK_TO_MOVE = 1 << 16  # points below which a stage is not computed by itself so that threads share it: in a network that costs
_EXPENSIVE = 4  # points that one with an exponential or the like counts for, at least
_SHORT_ROW = 10  # vectors: stages that make up a row of no more wait for each other, and are computed for several rows in turn
_CHAINS = 8  # sums in flight that keep the units busy


def default_candidate(workload: Workload, target: CpuTarget) -> Candidate:
    """A legal candidate that uses the machine decently."""
    return _Default(workload, target).candidate()


@dataclass
class _Default:
    workload: Workload
    target: CpuTarget
    rewrites: list[Rewrite] = field(default_factory=list)
    nests: dict[str, Nest] = field(default_factory=dict)
    decisions: dict[str, int] = field(default_factory=dict)
    taken: dict[str, dict[str, int]] = field(default_factory=dict)  # of a row-wise stage: points of an axis that a step takes
    now: Workload = field(init=False)  # the workload after the rewrites so far

    def __post_init__(self) -> None:
        self.now = self.workload

    def candidate(self) -> Candidate:
        self._simplify()
        for stage in reversed(self.now.stages):
            if stage.name not in self.nests and self.now.is_stage(stage.name):  # a rewrite on the way may have inlined it
                self._nest(stage)
        for name, sizes in self.taken.items():
            if self.nests[name].at is None:
                self._share_rows(self.now.stage(name), sizes)
        for stage in self.now.stages:
            self._slice(stage)
        order = [self.nests[s.name] for s in self.now.stages]
        sketch = Sketch(self.workload, tuple(order), tuple(self.rewrites)).check()
        return Candidate(sketch, {h: self.decisions.get(h, 1) for h in sketch.holes})

    def _try(self, rewrite: Rewrite) -> bool:
        try:
            self.now = apply_rewrites(self.now, [rewrite])
        except Refusal:
            return False
        self.rewrites.append(rewrite)
        return True

    # -- rewrites --------------------------------------------------------------------------------------------------

    def _simplify(self) -> None:
        for name in self.workload.outputs:  # first: what is written in place of an output must not disappear into it
            if is_reshape(self.now, self.now.stage(name)):
                self._try(Alias(name))
            elif self._reshapes(self.now.stage(name)):
                self._try(Reshape(name))
        copies = {name for stage in self.now.stages for name in self._widen(stage)}
        for name in [s.name for s in self.now.stages if s.name not in {*self.now.outputs, *copies}]:
            if self._disappears(self.now.stage(name)):
                self._try(Inline(name))
        for stage in self.now.stages:
            self._split_long_reduction(stage)

    def _reshapes(self, stage: Stage) -> bool:
        """Whether an output is better computed on the tiles of a stage of another shape: its lanes run along the last axis then,
        which has to be long enough."""
        source = reshaped_source(self.now, stage)
        if source is None or not _reuses(source) or dtype(source.dtype).lane_bytes != lane_bytes(self.now, stage):
            return False
        plan = TilePlan(self.now, source, self.target)
        return plan.vector_axis is source.axes[-1] and 2 * plan.vector_axis.extent > plan.lanes

    def _widen(self, stage: Stage) -> tuple[str, ...]:
        """Has bytes that are multiplied in pairs stored as i16, where that pays; gives the copies that this makes."""
        if not _reuses(stage) or not widens(self.target, stage) or TilePlan(self.now, stage, self.target).group is None:
            return ()
        rewrite, before = Widen(stage.name), self.now
        return rewrite.copies(before) if self._try(rewrite) else ()

    def _disappears(self, stage: Stage) -> bool:
        if stage.reduction:
            return False
        if selecting_axes(stage):
            return False
        now = self.now
        readers = [now.stage(r) for r in now.consumers[stage.name]]
        if is_padding(stage) and all(r.reduction for r in readers):
            return True
        if is_strictly_inlinable(stage):
            return True
        if is_movement(stage) and readers and not any(self._in_lanes(r, stage.name) for r in readers):
            return True
        if any(_reuses(r) for r in readers) or not readers:
            return False
        # read once per element by something that is not reused: recomputing costs nothing extra
        once = len(readers) == 1 and sum(x.tensor == stage.name for x in readers[0].reads) == 1
        if once and readers[0].reduction is None and all(access(readers[0], x).simple for x in readers[0].reads):
            return not has_branch(stage.body) or not is_expensive(stage.body)
        return False

    def _in_lanes(self, reader: Stage, tensor: str) -> bool:
        """Whether the reader's last axis, which will run in lanes, runs through a tensor."""
        lanes = {a.name for a in reader.axes[-1:]}
        return any(x.tensor == tensor and lanes & variables(x) for x in reader.reads)

    def _split_long_reduction(self, stage: Stage) -> None:
        """Partial results for the threads, where a reduction has too few results to share among them."""
        points = math.prod(stage.shape)
        length = math.prod(a.extent for a in stage.reduce_axes)
        if not stage.reduction or _reuses(stage) or points >= self.target.cores or length < 1 << 14:
            return
        longest = max(stage.reduce_axes[:-1] or stage.reduce_axes, key=lambda a: a.extent)
        self._try(Rfactor(stage.name, longest.name, min(longest.extent, 2 * self.target.cores)))

    # -- nests -----------------------------------------------------------------------------------------------------

    def _nest(self, stage: Stage) -> None:
        readers = self.now.consumers[stage.name]
        if is_transform(self.now, stage):
            self._transform(stage)
        elif sums := part_sums(self.now, stage, self.target):
            self._in_parts(sums, stage)
        elif _reuses(stage):
            self._tiled(stage, stage)
        elif stage.reduction is None and (producer := self._tiled_producer(stage)):
            sums = part_sums(self.now, producer, self.target)
            if sums is not None:
                self._in_parts(sums, stage)
            else:
                self._tiled(producer, stage)
        else:
            inside = readers and stage.name not in self.now.outputs
            self._rowwise(stage, self._transform_row(stage) or self._attach_point(stage) if inside else None)

    def _tiled_producer(self, stage: Stage) -> Stage | None:
        """A stage with reuse whose only reader this one is, element by element: both are computed on one tile."""
        for read in stage.reads:
            if not self.now.is_stage(read.tensor):
                continue
            producer = self.now.stage(read.tensor)
            if _reuses(producer) and elementwise_match(self.now, producer.name, stage.name):
                if dtype(producer.dtype).lane_bytes == lane_bytes(self.now, stage):
                    return producer
        return None

    def _attach_point(self, stage: Stage) -> AttachPoint | None:
        """The row loops of a later stage inside which all readers of this one run."""
        now = self.now
        roots = [n for n in self.nests.values() if n.at is None and not _reuses(now.stage(n.stage))]
        for nest in roots:
            inside = {n for n in self.nests if self._root_of(n) == nest.stage}
            if not set(now.consumers[stage.name]) <= inside:
                continue
            fused = [n.at for n in self.nests.values() if n.at is not None and n.at.stage == nest.stage]
            depth = common_outer_axes(now, stage.name, nest.stage)
            limit = len(now.stage(nest.stage).axes) - 1 if self.target.lanes() > 1 else depth
            depth = min([depth, limit, *(point.depth for point in fused)])
            depth = depth if fused else self._rows_together(now.stage(nest.stage), stage, depth)
            shared = math.prod(a.extent for a in now.stage(nest.stage).axes[:depth])
            if shared < self.target.cores and _work(stage) >= _WORK_TO_MOVE:
                return None  # one thread would do all of it
            # the loops up to that depth must be just the leading axes, one loop each
            leading = tuple(NestLoop(a.name, 0) for a in now.stage(nest.stage).axes[:depth])
            if depth > 0 and nest.outer[:depth] == leading and all(point.depth == depth for point in fused):
                return AttachPoint(nest.stage, depth)
        return None

    def _rows_together(self, root: Stage, last: Stage, depth: int) -> int:
        """The depth at which the stages of a row are computed; one less where the `last` of them is a number of the row that all of
        the row waits for, rows are short, and a cache holds several."""
        sizes = [a.extent for a in root.axes]
        if math.prod(last.shape) >= math.prod(sizes):
            return depth
        row, several = (math.prod(sizes[d:]) for d in (depth, depth - 1))
        kept = sum(s.shape == root.shape and not _reuses(s) for s in self.now.stages) - 1  # as long as the rows of the root
        small = max(1, kept) * several * dtype(root.dtype).bytes <= self.target.l1_bytes
        enough = math.prod(sizes[: depth - 1]) >= self.target.cores
        return depth - 1 if depth > 1 and row <= _SHORT_ROW * self._lanes(root) and small and enough else depth

    def _root_of(self, name: str) -> str:
        nest = self.nests[name]
        return name if nest.at is None else self._root_of(nest.at.stage)

    def _lanes(self, stage: Stage) -> int:
        return self.target.lanes(lane_bytes(self.now, stage))

    # -- row by row ------------------------------------------------------------------------------------------------

    def _rowwise(self, stage: Stage, at: AttachPoint | None) -> None:
        """Loops in the order of the axes, lanes along the last one that is contiguous."""
        lanes = self._lanes(stage)
        outer = [NestLoop(a.name, 0) for a in stage.axes]
        tile: list[NestLoop] = []
        vector = None
        along, rows = lane_axis(stage), transposing_axis(stage)
        if along is not None:
            last = stage.axis(along)
            reduce = along in {a.name for a in stage.reduce_axes}
            width = min(last.extent, lanes * (8 if reduce else 4 if rows is None else 1))  # squares are not made longer by more
            vector = NestLoop(along, 1)
            self.decisions[f"{stage.name}.{vector}"] = max(1, width)
        for a in stage.reduce_axes:
            tile.append(NestLoop(a.name, 0))
        if rows is not None and vector:
            tile.append(NestLoop(rows, 1))
            self.decisions[f"{stage.name}.{tile[-1]}"] = lanes
        if vector:
            tile.append(vector)
        by_place = NestLoop(along, 0) if along is not None and chooses_by(stage, along) else None
        laid_out = frozenset({by_place} if by_place is not None else ())
        self.nests[stage.name] = Nest(stage.name, f"{written(outer, laid_out)} | {written(tile)}", vector=vector, at=at)
        self.taken[stage.name] = {loop.axis: self.decisions[f"{stage.name}.{loop}"] for loop in tile if loop.part == 1}
        steps = 1 if along in {a.name for a in stage.reduce_axes} else math.prod(a.extent for a in stage.reduce_axes)
        chains = -(-self.taken[stage.name].get(along, 1) // lanes) if along is not None else 1
        self.decisions[f"{stage.name}.unroll"] = max(1, min(steps, 1 + _CHAINS // chains))

    def _share_rows(self, stage: Stage, taken: Mapping[str, int]) -> None:
        """Shares the loops of a row-wise stage at the root, but not those inside of which others are computed for all of them."""
        nest = self.nests[stage.name]
        by_place = next((n for n, loop in enumerate(nest.outer) if loop in nest.unrolled), None)
        before = nest.outer[:by_place] if by_place is not None else ()
        enough = math.prod(stage.axis(n.axis).extent for n in before) >= STEPS_PER_THREAD * self.target.cores
        inside = [self.now.stage(n) for n in self.nests if self._root_of(n) == stage.name]
        depths = [n.at.depth for n in self.nests.values() if n.at is not None and n.at.stage == stage.name]
        outer = before if enough else nest.outer  # a loop that is shared is not laid out
        self._share(stage, outer[: min(depths, default=len(outer))], taken, sum(map(_work, inside)))

    def _share(
        self, stage: Stage, outer: Sequence[NestLoop], tile: Mapping[str, int] | None = None, work: float | None = None
    ) -> None:
        """Shares just so many outer loops, one per axis, among the threads that there are steps enough for all. `tile`: how many
        points of an axis a step takes, where it takes more than one."""
        work = _work(stage) if work is None else work
        wanted = 4 * STEPS_PER_THREAD * self.target.cores
        sizes = tile or {}
        steps = [-(-stage.axis(loop.axis).extent // sizes.get(loop.axis, 1)) if loop.part == 0 else 1 for loop in outer]
        counts = [n for n in range(len(outer) + 1) if math.prod(steps[:n]) >= wanted]
        count = counts[0] if counts else len(outer)
        self.decisions[f"{stage.name}.parallel"] = count if work >= _WORK_TO_SHARE else 0

    def _transform(self, stage: Stage) -> None:
        """Short axes laid out on the tile, one vector wide: there are enough values to keep the machine busy."""
        readers = [self.nests[r] for r in self.now.consumers[stage.name] if r in self.nests]
        nest = self.nests[stage.name] = selecting_nest(self.now, stage, readers)
        if nest.at is None and nest.vector is not None:
            self.decisions[f"{stage.name}.{nest.vector}"] = self._lanes(stage)
        if nest.at is None:
            self._share(stage, nest.outer)

    def _transform_row(self, padding: Stage) -> AttachPoint | None:
        """Where a row of tiles is transformed that is read from padding: so much of it is made there, and stays in a cache."""
        readers = self.now.consumers[padding.name]
        if not is_padding(padding) or len(readers) != 1 or not is_transform(self.now, self.now.stage(readers[0])):
            return None
        point = self.nests[readers[0]].at
        if point is None:
            return None
        outer = self.nests[point.stage].outer[:-2]  # without the tiles of a row and the channels
        rows = math.prod(self.now.stage(point.stage).axis(loop.axis).extent for loop in outer)
        if not outer or rows < STEPS_PER_THREAD * self.target.cores:
            return None
        self.decisions[f"{point.stage}.parallel"] = len(outer)
        return AttachPoint(point.stage, len(outer))

    def _slice(self, last: Stage) -> None:
        """A chain of transforms goes through its stages slice by slice, where that is better. A slice has as many rows of tiles as
        the register tile of the product."""
        cut = slices(self.now, last) if self.nests[last.name].at is None else None
        rows = self.decisions.get(f"{cut.product}.{NestLoop(cut.along, 1)}", 1) if cut is not None else 1
        if cut is None or not is_cut(self.now, cut, rows, self.target):
            return
        self.decisions[f"{last.name}.{NestLoop(cut.axis.name, 1)}"] = rows
        for name in cut.members:
            self.nests[name] = replace(self.nests[name], at=AttachPoint(last.name, cut.depth))
        self.decisions[f"{last.name}.parallel"] = cut.depth

    # -- tiles -----------------------------------------------------------------------------------------------------

    def _tiled(self, stage: Stage, outer: Stage) -> None:
        """A stage with reuse; `outer` is its elementwise reader, or itself."""
        plan = TilePlan(self.now, stage, self.target)
        loops, tile, sizes = plan.loops()
        copied = self._copy_operand(plan)
        laid_out = plan.laid_out()
        stage, outer = self.now.stage(stage.name), self.now.stage(outer.name)
        packed = tuple(x.tensor for x in stage.reads if self._packable(x))
        names = {a.name: b.name for a, b in zip(stage.axes, outer.axes)}
        fused = outer.name != stage.name
        if fused:
            spatial = {a.name for a in stage.axes}
            inner = [NestLoop(n.axis, 0) if n.axis in spatial else n for n in tile]
            # axes that are not tiled still need a loop in the attached nest
            for a in stage.axes:
                if NestLoop(a.name, 0) not in inner:
                    inner.insert(0, NestLoop(a.name, 0))
            reduce = frozenset(n for n in laid_out if n.axis not in spatial)
            vector = NestLoop(plan.vector.axis, 0) if plan.vector in tile and not plan.across else plan.vector
            point = AttachPoint(outer.name, len(loops))
            text = f"| {written(inner, reduce, sizes=plan.fixed)}"
            self.nests[stage.name] = Nest(stage.name, text, vector=vector, at=point, packed=packed, group=plan.group)
            theirs = {n: NestLoop(names[n.axis], n.part) for n in [*loops, *tile, plan.vector] if n.axis in names}
            renamed = written((theirs[n] for n in loops), frozenset(theirs[n] for n in laid_out if n in loops))
            own = written(theirs[n] for n in tile if n in theirs)
            self.nests[outer.name] = Nest(outer.name, f"{renamed} | {own}", vector=None if plan.across else theirs[plan.vector])
            for loop, size in sizes.items():
                if loop.axis in names:
                    self.decisions[f"{outer.name}.{NestLoop(names[loop.axis], loop.part)}"] = size
                else:
                    self.decisions[f"{stage.name}.{loop}"] = size
        else:
            loops_text = f"{written(loops, laid_out)} | {written(tile, laid_out, sizes=plan.fixed)}"
            self.nests[stage.name] = Nest(stage.name, loops_text, vector=plan.vector, packed=packed, group=plan.group)
            for loop, size in sizes.items():
                self.decisions[f"{stage.name}.{loop}"] = size
        self.decisions[f"{stage.name}.unroll"] = plan.unroll()
        self.decisions[f"{outer.name}.parallel"] = plan.parallel(loops)
        if copied is not None:
            self.nests[copied] = follow(self.now, self.nests, Nest(copied, "", follows=stage.name))
            self.decisions[f"{copied}.parallel"] = max(1, len(self.nests[copied].outer) - 1)

    def _in_parts(self, sums: PartSums, outer: Stage) -> None:
        """A sum over parts, its parts computed on its tile; `outer` is its elementwise reader, or itself."""
        stage, dot = sums.stage, sums.dot
        loops, tile = sums.outer(), sums.tile()
        columns = stage.axes[-1].name
        packed = tuple(x.tensor for x in stage.reads if self._packable(x))
        if outer.name == stage.name:
            text = f"{written(loops)} {sums.over_parts()} | {written(tile)}"
            self.nests[stage.name] = Nest(stage.name, text, vector=NestLoop(columns, 1), packed=packed)
            point = AttachPoint(stage.name, len(loops) + len(stage.reduce_axes))
        else:
            inner = f"{sums.over_parts()} | {written(NestLoop(a.name, 0) for a in stage.axes)}"
            at = AttachPoint(outer.name, len(loops))
            self.nests[stage.name] = Nest(stage.name, inner, vector=NestLoop(columns, 0), at=at, packed=packed)
            point = AttachPoint(stage.name, len(stage.reduce_axes))
            names = {a.name: b.name for a, b in zip(stage.axes, outer.axes)}
            loops = [NestLoop(names[n.axis], n.part) for n in loops]
            tile = {NestLoop(names[n.axis], n.part): size for n, size in tile.items()}
            vector = NestLoop(names[columns], 1)
            self.nests[outer.name] = Nest(outer.name, f"{written(loops)} | {written(tile)}", vector=vector)
        for loop, size in tile.items():
            self.decisions[f"{outer.name}.{loop}"] = size
        text, group, sizes = sums.of_part(self.target)
        packed = tuple(x.tensor for x in dot.reads if self._packable(x))
        vector = NestLoop(dot.axes[-1].name, 0)
        self.nests[dot.name] = Nest(dot.name, f"| {text}", vector=vector, at=point, packed=packed, group=group)
        self.decisions |= sizes
        self._share(outer, loops, {loop.axis: size for loop, size in tile.items()}, _work(dot))

    def _copy_operand(self, plan: TilePlan) -> str | None:
        """The copy, in loop order, of an operand that is not constant but read often enough to pay for it."""
        if plan.across or plan.row_tiles() < _READS_FOR_A_COPY:
            return None
        for read in plan.stage.reads:
            buffer = self.now.buffers[read.tensor]
            lanes_run = plan.vector_axis.name in variables(read)
            near = buffer.bytes <= self.target.l1_bytes // 2 and not self._groups_lie_apart(read, plan)
            if not lanes_run or buffer.constant or near or self._stays(read, plan):
                continue
            if self._try(CacheRead(plan.stage.name, read.tensor)):
                if self.now.is_stage(read.tensor) and len(self.now.consumers[read.tensor]) == 1:
                    self._try(Inline(read.tensor))  # one copy (a transpose, say) is enough
                return f"{read.tensor}.pack"
        return None

    def _groups_lie_apart(self, read: Load, plan: TilePlan) -> bool:
        """Whether a group is read for each lane by itself, in every step again: the lanes' factors are rows of a matrix."""
        last = affine(read.indices[-1]) if read.indices else None
        return plan.group is not None and last is not None and plan.vector_axis.name not in last.terms

    def _stays(self, read: Load, plan: TilePlan) -> bool:
        """Whether a panel of an input, as it lies, stays in the second cache while the rows pass by: then a copy gains nothing.

        A panel is what the lanes of one tile read in all steps; parts of it that lie a multiple of the cache's reach apart share a
        set of lines.
        """
        buffer, last = self.now.buffers[read.tensor], affine(read.indices[-1])
        if self.now.is_stage(read.tensor) or last is None or last.terms.get(plan.vector_axis.name) != 1:
            return False
        if plan.group is not None:  # a copy has the bytes of a lane side by side
            return False
        size = dtype(buffer.dtype).bytes
        steps = math.prod(a.extent for a in plan.stage.reduce_axes if a.name in variables(read))
        reach = self.target.l2_bytes // _L2_WAYS
        ways = steps * math.gcd(buffer.shape[-1] * size, reach) / reach
        return ways <= _L2_WAYS and steps * plan.vectors * plan.lanes * size <= self.target.l2_bytes // 2

    def _packable(self, read: Load) -> bool:
        buffer = self.now.buffers[read.tensor]
        reads = [x for s in self.now.stages for x in s.reads if x.tensor == read.tensor]
        return buffer.constant and len(reads) == 1 and all(affine(i) is not None for i in read.indices) and len(read.indices) > 1


def _reuses(stage: Stage) -> bool:
    """Whether a register tile pays: a broadcast without a reduction reuses little that caches would not give anyway."""
    return stage.reduction is not None and needs_tiling(stage)


def _work(stage: Stage) -> int:
    """Points of a stage, more of them where each costs more."""
    return math.prod(a.extent for a in stage.all_axes) * (_EXPENSIVE if is_expensive(stage.body) else 1)
