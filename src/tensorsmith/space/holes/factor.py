"""`C.factor`: how many partial results an rfactor of C makes. The extents of both its stages depend on it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tensorsmith.space.holes.kind import ChoiceKind, Column, Draft
from tensorsmith.space.sketch.nest import Choice
from tensorsmith.space.sketch.rewrite import Rfactor

if TYPE_CHECKING:
    from tensorsmith.space.population.population import Plan
    from tensorsmith.space.sketch.sketch import Sketch


class Factor(ChoiceKind):
    name = "factor"

    def take(self, choice: Choice, option: str, draft: Draft) -> None:
        for n, r in enumerate(draft.rewrites):
            if isinstance(r, Rfactor) and r.stage == choice.stage:
                draft.rewrites[n] = replace(r, factor=int(option))

    def option_of(self, choice: Choice, sketch: Sketch) -> str:
        return next((str(r.factor) for r in sketch.rewrites if isinstance(r, Rfactor) and r.stage == choice.stage), "")

    def start(self, plan: Plan, column: Column, variant: int) -> int:
        return len(column.options) // 2

    def likeness(self, wanted: str, option: str) -> float:
        return -abs(math.log2(1 + int(wanted)) - math.log2(1 + int(option))) if wanted else -math.inf

    def possible(self, choice: Choice, wanted: Sketch) -> list[int]:
        return [n for n, o in enumerate(choice.options) if o == self.option_of(choice, wanted)]


KIND = Factor()
