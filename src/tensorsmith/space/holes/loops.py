"""`C.loops`: the order of a nest's loops, and which of them are laid out step by step.

C.loops in i.0 j.0 i.1 j.1 | k.0 i.2 j.2 / j.0 i.0 i.1 j.1 | k.0 i.2 j.2
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tensorsmith.space.holes.kind import ChoiceKind, Column, Draft
from tensorsmith.space.sketch.loops import Loops
from tensorsmith.space.sketch.nest import Choice

if TYPE_CHECKING:
    from tensorsmith.space.population.population import Plan
    from tensorsmith.space.sketch.sketch import Sketch


class LoopOrder(ChoiceKind):
    name = "loops"

    def take(self, choice: Choice, option: str, draft: Draft) -> None:
        draft.nests[choice.stage] = replace(draft.nests[choice.stage], loops=Loops.read(option))

    def option_of(self, choice: Choice, sketch: Sketch) -> str:
        nest = sketch.by_stage.get(choice.stage)
        return str(nest.loops) if nest is not None else ""

    def variants(self, column: Column) -> int:
        return len(column.options)

    def start(self, plan: Plan, column: Column, variant: int) -> int:
        return variant % len(column.options)

    def likeness(self, wanted: str, option: str) -> float:
        """Loops of the same axis in the same places."""
        mine, theirs = _axes(wanted), _axes(option)
        return -float(sum(a != b for a, b in zip(mine, theirs))) - abs(len(mine) - len(theirs))


def _axes(text: str) -> list[str]:
    """The axes of the loops in order, and where the register tile begins."""
    loops = Loops.read(text)
    return [*(x.axis for x in loops.outer), "|", *(x.axis for x in loops.tile)]


KIND = LoopOrder()
