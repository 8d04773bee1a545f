"""At the root: every stage that no rule before has taken gets the simplest nest, in a place of its own, and nothing is left open.

B[i, j] = ...        ->    for i.0: for j.0: tile j.1: B[i, j] = ...
"""

from __future__ import annotations

from tensorsmith.space.rules.base import Derived, State, Verdict, simple_nest
from tensorsmith.targets.target import Target


class AtTheRoot:
    """Always applies: for small spaces, in which stages are not moved."""

    name = "root"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        return [(state if state.nest(stage.name) else state.with_nest(simple_nest(stage)), index - 1)]
