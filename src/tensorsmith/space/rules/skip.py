"""Skip: leave a stage as it is.

B[i, j] = ...        ->    for i.0: for j.0: tile j.1: B[i, j] = ...
"""

from __future__ import annotations

from tensorsmith.space.rules.base import Derived, State, Verdict, simple_nest
from tensorsmith.target import Target


class Skip:
    """Always applies: the stage gets the simplest nest, unless it has one."""

    name = "skip"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        return Verdict.APPLY

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        done = state if state.nest(stage.name) else state.with_nest(simple_nest(stage))
        return [(done, index - 1)]
