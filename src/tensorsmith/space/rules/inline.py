"""Inline: a cheap stage is computed where it is read.

B[i] = A[i] + 1; C[i] = B[i] * 2        ->    C[i] = (A[i] + 1) * 2
"""

from __future__ import annotations

from tensorsmith.lang.inline import fits
from tensorsmith.space.analysis import is_strictly_inlinable
from tensorsmith.space.rules.base import Derived, State, Verdict
from tensorsmith.space.sketch.rewrite import Inline
from tensorsmith.targets.target import Target


class AlwaysInline:
    """A stage that is no output and costs nothing to recompute has no nest of its own."""

    name = "inline"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if stage.name in state.now.outputs or not is_strictly_inlinable(stage) or not fits(state.now, stage.name):
            return Verdict.SKIP
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        return [(state.rewritten(Inline(state.stage(index).name)), index - 1)]
