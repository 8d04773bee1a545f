"""Reshape: an output that works element by element on a reduction of another shape takes that shape, or keeps its own.

C[g, i] = sum(...); R[j] = max(C[j // 4, j % 4], 0)        ->    R.reshaped[g, i] = max(C[g, i], 0), written where R is wanted
"""

from __future__ import annotations

from tensorsmith.space.reshaping import reshaped_source
from tensorsmith.space.rules.base import Derived, State, Verdict
from tensorsmith.space.sketch.rewrite import Reshape
from tensorsmith.targets.target import Target


class ReshapeOutput:
    """Applies to an output whose elements are those of a reduction in the same order, in more dimensions."""

    name = "reshape"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        source = reshaped_source(state.now, state.stage(index))
        return Verdict.APPLY if source is not None and source.reduction else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        return [(state.rewritten(Reshape(state.stage(index).name)), index)]
