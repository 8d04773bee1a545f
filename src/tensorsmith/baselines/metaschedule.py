"""TVM's MetaSchedule (Shao et al., "Tensor Program Optimization with Probabilistic Programs", NeurIPS 2022), as a policy over our
sketches.

Its design spaces for CPUs are what Ansor's rules derive, so the rules are those; its sampling, mutators, evolution and model are
its own (spec: baselines.md, sections 4.1 to 4.6): tiles are drawn prime by prime, the population is 512, mutators have their own
weights, and the trees learn anew only when there is a fifth more to learn from.

    metaschedule          evolution under trees
    metaschedule-replay   random samples of the design spaces, nothing learned (`ReplayTrace`)

Left out is what is no policy: traces as programs of their own, post-processors, tensor instructions. How many loops threads share
is drawn and mutated as a number of loops; the limits of parallel and vector loops are the code generator's. Unrolling is Ansor's:
a pragma per reduction, where the source has one number for the whole program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tensorsmith.learn.models.model import CostModel
from tensorsmith.program.unrolling import PRAGMA
from tensorsmith.search.annotation import Chances
from tensorsmith.search.picking import Pick
from tensorsmith.search.policies import ansor
from tensorsmith.search.policy import Preset
from tensorsmith.space.population.population import Space
from tensorsmith.space.sketch.sketch import Candidate


@dataclass(frozen=True)
class Settings:
    """Constants of MetaSchedule (spec: baselines.md, sections 4.4 to 4.6)."""

    evolution: ansor.Settings = ansor.Settings(  # noqa: RUF009  frozen
        chances=Chances(
            size=0.90, location=0.05, unroll=0.03, parallel=0.02, innermost=64, by_primes=True, pragma=PRAGMA
        ),  # 4.4: mutators; 4.2: four unroll steps
        population=512,
        measured=0.2,  # init_measured_ratio
        generations=4,  # genetic_num_iters
        blind=4,  # scores are random at first, but as many generations
        mutation=0.85,
        round=64,
        kept=1,
        random=0.05,
        drawn=3,
        retries=4,  # five empty rounds end the search
        attempts=10,  # genetic_max_fail
    )
    growth: float = 0.2  # 4.6: the model learns again when so much more was measured


SETTINGS = Settings()


class MetaSchedulePolicy(ansor.AnsorPolicy):
    """Ansor's rounds with other constants, and a model that learns less often."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        super().__init__(space, seed=seed, model=model, settings=settings.evolution)
        self.growth = settings.growth
        self._learned = 0  # samples of the last time

    def _learn(self) -> None:
        if self.model.ready() and len(self.told) < (1 + self.growth) * self._learned:
            return
        if self._stale:
            self._learned = len(self.told)
        super()._learn()


class ReplayPolicy(MetaSchedulePolicy):
    """Random samples of the design spaces."""

    def _round(self) -> list[Pick]:
        return [(p.plan, row) for p in self._first_population() for row in p.matrix]


PRESET = Preset("metaschedule", MetaSchedulePolicy, rules="ansor", model="ansor", transfer=False, formulations="direct")
REPLAY = Preset(
    "metaschedule-replay",
    partial(ReplayPolicy, settings=replace(SETTINGS, evolution=replace(SETTINGS.evolution, population=64, measured=0.0))),
    rules="ansor",
    model="random",
    transfer=False,
    formulations="direct",
)
