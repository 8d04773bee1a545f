"""Tiling with fusion (Ansor's): a stage with reuse is computed per tile of its elementwise reader.

    C[i, j] = sum(...); D[i, j] = relu(C[i, j])
        ->    for i.0 j.0: C's tile: for k.0 i j ... ; D's tile

The reader owns the outer tiles; the producer computes the region asked for, in the tile levels that are left (`SSRSRS` less those
of the reader).
"""

from __future__ import annotations

from tensorsmith.lang.workload import Stage
from tensorsmith.space.analysis import elementwise_match, needs_tiling, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, names, tiled
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.targets.target import Target


def fusible_reader(state: State, producer: str) -> str | None:
    """The one stage that reads a producer element by element and reduces nothing."""
    readers = state.now.consumers[producer]
    if len(readers) != 1 or not elementwise_match(state.now, producer, readers[0]):
        return None
    return None if state.now.stage(readers[0]).reduction else readers[0]


class TilingWithFusion:
    """One sketch for each tile level of the reader at which the producer can be computed."""

    name = "fusion"
    attach_levels = (1, 2)

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if not needs_tiling(stage) or reduces_constant(state.now, stage) or not fusible_reader(state, stage.name):
            return Verdict.SKIP
        return Verdict.APPLY_AND_SKIP_REST if state.has_cache_write(stage.name) else Verdict.APPLY

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        reader = state.now.stage(str(fusible_reader(state, stage.name)))
        return [(self._fused(state, stage, reader, level), index - 1) for level in self.attach_levels]

    def _fused(self, state: State, stage: Stage, reader: Stage, level: int) -> State:
        split = [a for a in reader.axes if tiled(a)]
        outer = names(levels(reader.axes, 0), *(levels(split, n) for n in range(1, level)))
        inside = names(levels(split, level), f"| {split[-1].name}.{level + 1}" if split else "|")
        vector = f"{split[-1].name}.{level + 1}" if split else None
        depth = len(reader.axes) + (level - 1) * len(split)
        copy = Nest(reader.name, names(outer, inside), vector=vector)
        own = [a for a in stage.axes if tiled(a)]
        reduce = [a for a in stage.reduce_axes if tiled(a)]
        head = (
            names(levels(stage.axes, 0), levels(stage.reduce_axes, 0), levels(own, 1))
            if level == 1
            else names(levels(stage.reduce_axes, 0), levels(stage.axes, 0))
        )
        last = 2 if level == 1 else 1
        lanes = f"{own[-1].name}.{last}" if own else None
        nest = Nest(stage.name, names(head, "|", levels(reduce, 1), levels(own, last)), vector=lanes, at=f"{reader.name}:{depth}")
        return state.with_nest(copy).with_nest(nest)
