"""`P.at`: where a stage is computed: at the root, inlined into its readers, or inside loops of another nest.

P.at in root / inline / D:1 / D:2
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

ROOT, INLINE = "root", "inline"

#: of a place inside nothing but loops that run once: it is the root, but keeps threads from sharing the loops around it
_USELESS = 0.05


class At(ChoiceKind):
    name = "at"
    places = True

    def take(self, choice: Choice, option: str, draft: Draft) -> None:
        if option == INLINE:
            draft.inlined.append(choice.stage)
        else:
            at = None if option == ROOT else AttachPoint.read(option)
            draft.nests[choice.stage] = replace(draft.nests[choice.stage], at=at)

    def option_of(self, choice: Choice, sketch: Sketch) -> str:
        nest = sketch.by_stage.get(choice.stage)
        return INLINE if nest is None else str(nest.at or ROOT)

    def removes(self, choice: Choice) -> bool:
        return INLINE in choice.options

    def weights(self, plan: Plan, column: Column) -> Array:
        """Inlining, where a rule offers it, is as likely as all other places together: rules offer it where little is computed
        again, and then nothing has to be stored."""
        weights = np.ones(len(column.options))
        for place in plan.geometry.places[column.stage][1]:
            if place.option is not None and place.at is not None:
                around = plan.sketch.nest(place.at.stage).outer[: place.at.depth]
                if all(plan.geometry.most(place.at.stage, loop.axis) == 1 for loop in around):
                    weights[place.option] = _USELESS
        if INLINE in column.options and len(weights) > 1:
            weights[column.options.index(INLINE)] = len(weights) - 1
        return weights

    def start(self, plan: Plan, column: Column, variant: int) -> int:
        return column.options.index(INLINE) if INLINE in column.options else 0

    def likeness(self, wanted: str, option: str) -> float:
        if {wanted, option} & {ROOT, INLINE}:
            return -math.inf
        mine, theirs = AttachPoint.read(wanted), AttachPoint.read(option)
        return -abs(mine.depth - theirs.depth) if mine.stage == theirs.stage else -math.inf

    def possible(self, choice: Choice, wanted: Sketch) -> list[int]:
        """Any depth of the stage that it is attached to: with other loops the same place may have another depth."""
        nest = wanted.by_stage.get(choice.stage)
        if nest is not None and nest.at is not None:
            points = [None if o in (ROOT, INLINE) else AttachPoint.read(o) for o in choice.options]
            return [n for n, p in enumerate(points) if p is not None and p.stage == nest.at.stage]
        return [n for n, o in enumerate(choice.options) if o == self.option_of(choice, wanted)]


KIND = At()
