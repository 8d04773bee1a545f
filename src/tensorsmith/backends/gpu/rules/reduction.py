"""Cross-thread reduction (Ansor's): a long reduction with few results is shared by the threads of a block.

S[i] = sum(X[i, k]); D[i, j] = X[i, j] / S[i]
    ->    block i.0: S: thread k.0; then D: thread j.1       where a reader runs through the same rows
    ->    block i.0: reduce k.0, thread k.1                  else
    ->    block i.0: thread k.0 m.0                          else, where all of several axes are dealt out, as in Ansor
"""

from __future__ import annotations

import math

from tensorsmith.backends.gpu.rules import nests
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.lang.workload import Stage
from tensorsmith.space.analysis import common_outer_axes, needs_tiling, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, names, tiled
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.targets.target import Target


class CrossThreadReduction:
    """Applies where a stage has fewer results than elements to reduce, or just many elements and no reuse."""

    name = "gpu_cross_thread"

    def __init__(self, fused: bool = False) -> None:
        self.fused = fused  # threads share all steps over several axes, not those of one axis

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        assert isinstance(target, GpuTarget)
        stage = state.stage(index)
        if not stage.reduction or state.has_cache_write(stage.name) or state.nest(stage.name) or reduces_constant(state.now, stage):
            return Verdict.SKIP
        results = math.prod(stage.shape)
        length = math.prod(a.extent for a in stage.reduce_axes)
        if needs_tiling(stage):
            return Verdict.APPLY if results <= target.threads and results < length else Verdict.SKIP
        return Verdict.APPLY if length > target.warp else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        reader = self._reader(state, stage)
        if reader is not None:
            depth = self._depth(state, stage, reader)
            if depth:
                new = state if _is_row(state, reader) else state.with_nest(nests.row(reader, depth))
                return [(new.with_nest(self._inside(stage, reader, depth)), index - 1)]
        return [(state.with_nest(self._alone(stage)), index - 1)]

    def _reader(self, state: State, stage: Stage) -> Stage | None:
        """The one stage in whose rows the stage can be computed: its reader, or where all of its readers are computed."""
        found = set()
        for name in state.now.consumers[stage.name]:
            nest = state.nest(name)
            found.add(name if nest is None or nest.at is None else nest.at.stage)
        if len(found) != 1 or stage.name in state.now.outputs:
            return None
        reader = state.now.stage(found.pop())
        return reader if reader.axes and not reader.reduction else None

    def _depth(self, state: State, stage: Stage, reader: Stage) -> int:
        """The loops of the reader around the stage: rows that both have, with something left for the threads."""
        common = min(common_outer_axes(state.now, stage.name, reader.name), len(reader.axes) - 1, len(stage.axes))
        nest = state.nest(reader.name)
        if nest is not None and _is_row(state, reader):
            depth = sum(mark == "block" for mark in nest.loops.bindings.values())
            return depth if depth <= common else 0
        return common if nest is not None and "grid" in nest.loops.bindings.values() and not nest.unrolled else 0

    def _inside(self, stage: Stage, reader: Stage, depth: int) -> Nest:
        reduce = nests.bound(levels(stage.reduce_axes, 0), "thread")
        return Nest(stage.name, names(levels(stage.axes, 0), "|", reduce), at=f"{reader.name}:{depth}")

    def _alone(self, stage: Stage) -> Nest:
        """Threads share the last axis, whose elements are neighbours, or the longest."""
        if self.fused and sum(map(tiled, stage.reduce_axes)) > 1:
            loops = names(nests.bound(levels(stage.axes, 0), "block"), "|", nests.bound(levels(stage.reduce_axes, 0), "thread"))
            return Nest(stage.name, loops, also=("threads",))
        last = stage.reduce_axes[-1]
        shared = last if last.extent >= 32 else max(stage.reduce_axes, key=lambda a: a.extent)
        blocks = nests.bound(levels(stage.axes, 0), "block")
        inner = f"{shared.name}.1@thread" if tiled(shared) else ""
        return Nest(stage.name, names(blocks, "|", levels(stage.reduce_axes, 0), inner))


def _is_row(state: State, reader: Stage) -> bool:
    """Whether a nest is one that rows were put into before."""
    nest = state.nest(reader.name)
    return nest is not None and nest.loops.is_cooperative and "vthread" not in nest.loops.bindings.values()
