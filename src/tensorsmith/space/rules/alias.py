"""Alias: an output that only reshapes a stage is that stage's memory.

C[g, i] = sum(...); R[j] = C[j // 4, j % 4]        ->    C is written where R is wanted
"""

from __future__ import annotations

from tensorsmith.space.analysis import is_reshape
from tensorsmith.space.rules.base import Derived, State, Verdict
from tensorsmith.space.sketch.rewrite import Alias
from tensorsmith.targets.target import Target


class AliasOutput:
    """Applies to an output that nothing reads and that lists a stage's elements in their own order."""

    name = "alias"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        now, stage = state.now, state.stage(index)
        if stage.name not in now.outputs or now.consumers[stage.name]:
            return Verdict.SKIP
        source = is_reshape(now, stage)
        if source is None or not now.is_stage(source) or source in now.outputs:
            return Verdict.SKIP
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        return [(state.rewritten(Alias(state.stage(index).name)), index - 1)]
