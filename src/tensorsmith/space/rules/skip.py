"""Skip: leave a stage as it is.

    B[i, j] = ...        ->    for i.0: for j.0: tile j.1: B[i, j] = ...

Where a stage without reuse is computed stays open, as in Ansor's random annotation: at the root or inside the loops of its reader.
"""

from __future__ import annotations

from tensorsmith.space.analysis import needs_tiling
from tensorsmith.space.rules.base import Derived, State, Verdict, simple_nest
from tensorsmith.space.rules.place import join_rows, places
from tensorsmith.targets.target import Target

_MOST_PLACES = 64  # Ansor tries every loop around a stage


class Skip:
    """Always applies: the stage gets the simplest nest, unless it has one."""

    name = "skip"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        return Verdict.APPLY

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        if state.nest(stage.name):
            return [(state, index - 1)]
        done = state.with_nest(simple_nest(stage))
        if not needs_tiling(stage) and stage.name not in state.now.outputs:
            done = join_rows(done, stage, whole=True) or done.with_places(stage, ["root", *places(state, stage, _MOST_PLACES)])
        return [(done, index - 1)]
