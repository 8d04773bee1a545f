"""Constant tensors: a small reduction against a constant matrix (Winograd's transforms) is laid out completely.

U[e, n, p, c] = sum(tile[p, c, a, b] * G[a, e] * G[b, n], over a<6, b<6)
    ->    for p.0 c.0 e.0 n.0: tile p.1 c.1 with a and b laid out, so that zeros and ones of G vanish
"""

from __future__ import annotations

from tensorsmith.space.analysis import reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, tiled
from tensorsmith.space.sketch import Nest
from tensorsmith.target import Target


class ConstantTensor:
    """Applies to reductions over a few elements against a tensor that is computed from indices alone."""

    name = "constant"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        return Verdict.APPLY_AND_SKIP_REST if reduces_constant(state.now, stage) else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        last = [a for a in stage.axes if tiled(a)][-1:]
        inner = f" {last[0].name}.1" if last else ""
        reduce = " ".join(f"{a.name}.0!" for a in stage.reduce_axes)
        nest = Nest(stage.name, f"{levels(stage.axes, 0)} | {reduce}{inner}", vector=inner.strip() or None)
        return [(state.with_nest(nest), index - 1)]
