"""Multi-level tiling (Ansor's): `SSRSRS`.

C[i, j] = sum(A[i, k] * B[k, j], over k)
    ->    for i.0 j.0 i.1 j.1 k.0 i.2 j.2: tile k.1 i.3 j.3
"""

from __future__ import annotations

from tensorsmith.space.analysis import needs_tiling, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, names, tiled
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.targets.target import Target


class Tiling:
    """Applies to every stage with reuse that is not fused."""

    name = "tiling"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if not needs_tiling(stage) or reduces_constant(state.now, stage) or state.nest(stage.name):
            return Verdict.SKIP
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        own = [a for a in stage.axes if tiled(a)]
        reduce = [a for a in stage.reduce_axes if tiled(a)]
        outer = names(levels(stage.axes, 0), levels(own, 1), levels(stage.reduce_axes, 0), levels(own, 2))
        vector = f"{own[-1].name}.3" if own else None
        nest = Nest(stage.name, names(outer, "|", levels(reduce, 1), levels(own, 3)), vector=vector)
        return [(state.with_nest(nest), index - 1)]
