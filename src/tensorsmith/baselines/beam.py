"""Beam search over incomplete programs, as the Ansor paper's ablation has it: what the cost model likes least is pruned early.

A program is built decision by decision: the sketch and its structure, then the tiles of one axis after the other, then what is
left. What is not decided yet is as if it were not there (no tiles, no threads), and that program is what the model is asked about.
The best few go on. A model that learned from complete programs knows little of incomplete ones, which is what the ablation shows.

    (sketch) ->  C.at = D:2  ->  C.i tiled 4 x 8  ->  C.j tiled 2 x 16  ->  ...  ->  D.parallel = 2

The source's own pruning rule is not known (spec: baselines.md, sections 6 and 7.2); width and defaults are those that the spec
proposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.learn.models.model import CostModel
from tensorsmith.program.unrolling import PRAGMA
from tensorsmith.search.annotation import Chances, annotate
from tensorsmith.search.picking import Pick
from tensorsmith.search.policies.ansor import AnnotatingPolicy
from tensorsmith.search.policies.tensorsmith import Array
from tensorsmith.search.policy import Preset
from tensorsmith.space.holes.kind import Matrix
from tensorsmith.space.population.population import Plan, Population, Space, unique
from tensorsmith.space.population.repair import repair
from tensorsmith.space.sketch.sketch import Candidate


@dataclass(frozen=True)
class Settings:
    """Knobs of the beam."""

    width: int = 32  # programs that go on (spec: baselines.md, section 6)
    children: int = 8  # values tried for a decision, of each program that goes on
    random: float = 0.05  # share of a batch that is random, as Ansor's
    chances: Chances = Chances(size=0.90, unroll=0.04, location=0.05, parallel=0.01, pragma=PRAGMA)  # noqa: RUF009  frozen; values are drawn as Ansor's annotations


SETTINGS = Settings()


class BeamPolicy(AnnotatingPolicy):
    """Asks and is told as ours is; what it asks for is what beams of all sketches end with."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        """`hints` are for policies that use them."""
        super().__init__(space, seed, model, settings.chances)
        self.beam = settings

    def _evolved(self, count: int) -> list[Pick]:
        ends = [Population(n, self._built(n, plan)) for n, plan in enumerate(self.space.plans)]
        random = round(count * self.beam.random) if self.told else 0
        chosen = self._pick(ends, count - random)
        if len(chosen) < count:  # the random ones, and those that the beams did not come to
            wanted = self.beam.width * self.beam.children
            drawn = [Population(n, annotate(p, wanted, self.rng, self.beam.chances)) for n, p in enumerate(self.space.plans)]
            chosen += self._pick_any(drawn, count - len(chosen))
        return chosen

    def _built(self, number: int, plan: Plan) -> Matrix:
        """Complete rows of one sketch, by a beam over its decisions."""
        s = self.beam
        nothing = np.array([c.idle if not c.vector else 1 for c in plan.columns], np.int32)
        rows = nothing[None, :]
        for columns in decisions(plan):
            offered = annotate(plan, len(rows) * s.children, self.rng, s.chances)
            grown = np.repeat(rows, s.children, axis=0)
            grown[:, columns] = offered[:, columns]
            rows = unique(grown)
            if len(rows) > s.width:
                (scores,) = self._scores([Population(number, repair(plan, rows))])
                rows = rows[np.argsort(-scores, kind="stable")[: s.width]]
        return unique(repair(plan, rows))


def decisions(plan: Plan) -> list[Array]:
    """The columns of each decision, in the order in which they are taken: the structure, the tiles of each axis, the rest."""
    structure = np.arange(plan.numbers, len(plan.columns))
    axes = [np.flatnonzero(plan.axes == axis) for axis in np.unique(plan.axes[plan.axes >= 0])]
    rest = [np.array([n]) for n in range(plan.numbers) if plan.axes[n] < 0]
    return [*([structure] if len(structure) else []), *axes, *rest]


PRESET = Preset("beam", BeamPolicy, rules="ansor", model="ansor", transfer=False, formulations="direct")
