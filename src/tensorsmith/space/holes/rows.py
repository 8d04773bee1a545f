"""`D.rows`: inside how many outer loops of D the stages of its rows are computed, all at the same depth; 0 is the root.

D.rows of M, E, S in 0 / 1
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.space.holes.kind import Array, ChoiceKind, Column, Draft
from tensorsmith.space.sketch.loops import AttachPoint
from tensorsmith.space.sketch.nest import Choice

if TYPE_CHECKING:
    from tensorsmith.space.population.population import Plan
    from tensorsmith.space.sketch.sketch import Sketch


class Rows(ChoiceKind):
    name = "rows"

    def take(self, choice: Choice, option: str, draft: Draft) -> None:
        at = None if option == "0" else AttachPoint(choice.stage, int(option))
        for name in choice.members:
            draft.nests[name] = replace(draft.nests[name], at=at)

    def option_of(self, choice: Choice, sketch: Sketch) -> str:
        points = [sketch.nest(m).at for m in choice.members if m in sketch.by_stage]
        return next((str(p.depth) for p in points if p is not None and p.stage == choice.stage), "0")

    def weights(self, plan: Plan, column: Column) -> Array:
        """The deepest twice as likely as all others together: a row that is in a cache need not be read from memory again."""
        weights = np.ones(len(column.options))
        if len(weights) > 1:
            weights[-1] = 2 * (len(weights) - 1)
        return weights

    def start(self, plan: Plan, column: Column, variant: int) -> int:
        return len(column.options) - 1

    def likeness(self, wanted: str, option: str) -> float:
        return -abs(math.log2(1 + int(wanted)) - math.log2(1 + int(option)))


KIND = Rows()
