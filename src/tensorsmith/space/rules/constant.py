"""Constant tensors: a small reduction against a constant matrix (Winograd's transforms) is laid out completely.

U[e, n, p, c] = sum(tile[p, c, a, b] * G[a, e] * G[b, n], over a<6, b<6)
    ->    for p.0 c.0, then e, n, a and b laid out step by step: tile c.1, so that zeros and ones of G vanish
"""

from __future__ import annotations

import math

from tensorsmith.space.analysis import constant_axes, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, names, tiled
from tensorsmith.space.sketch import Nest
from tensorsmith.target import Target

_MAX_STEPS = 2048  # that are laid out: F(4 x 4, 3 x 3) has 6^4


class ConstantTensor:
    """Applies to reductions over a few elements against a tensor that is computed from indices alone."""

    name = "constant"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        return Verdict.APPLY_AND_SKIP_REST if reduces_constant(state.now, stage) else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        decided = constant_axes(state.now, stage)
        if math.prod(a.extent for a in stage.all_axes if a.name in decided) > _MAX_STEPS:
            decided = frozenset()
        outer = [a for a in stage.axes if a.name not in decided]
        laid_out = " ".join(f"{a.name}.0!" for a in stage.axes if a.name in decided)
        reduce = " ".join(f"{a.name}.0!" for a in stage.reduce_axes)
        last = [a for a in outer if tiled(a)][-1:]
        lanes = f"{last[0].name}.1" if last else ""
        nest = Nest(stage.name, names(levels(outer, 0), laid_out, "|", reduce, lanes), vector=lanes or None)
        return [(state.with_nest(nest), index - 1)]
