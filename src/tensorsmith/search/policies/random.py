"""Random search: samples of the space, as they come. What every other policy has to beat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.learn.models.model import CostModel
from tensorsmith.search.picking import pick
from tensorsmith.search.policy import Preset, never
from tensorsmith.search.seen import Seen
from tensorsmith.search.trial import Trial
from tensorsmith.show.line import line
from tensorsmith.show.units import time
from tensorsmith.space.population.population import Space
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.space.sketch.sketch import Candidate


@dataclass(frozen=True)
class Settings:
    """Knobs of random search."""

    population: int = 1024  # rows drawn at a time: as many as ours, so that the same rows are there to be drawn
    structures: int = 18  # drawn at a time, of all sketches together
    sampling: str = "target"  # how rows are drawn: with the machine in mind, or "uniform" as in the paper


SETTINGS = Settings()


class RandomPolicy:
    """Draws rows and takes them in a random order; learns nothing."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        """`hints` and `model` are for policies that use them."""
        self.space, self.settings = space, settings
        self.rng = np.random.default_rng(seed)
        self.seen = Seen()
        self.best_seconds: float | None = None

    def __repr__(self) -> str:
        return line(self, f"on {self.space.workload.title}: best {time(self.best_seconds)}")

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        if stop():
            return []
        s, plans = self.settings, self.space.plans
        drawn = sample(self.space, s.population, self.rng, Sampling(s.sampling, max(2, s.structures // len(plans))))
        scores = [self.rng.random(len(p)) for p in drawn]
        chosen = pick(plans, drawn, scores, count, is_new=lambda plan, row: self.seen.take(plans[plan].candidate(row)))
        return [plans[plan].candidate(row) for plan, row in chosen]

    def finish(self, count: int) -> list[Candidate]:
        return []

    def tell(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            if trial.candidate.sketch.workload.key == self.space.workload.key:
                self.seen.take(trial.candidate)
                if trial.seconds is not None:
                    self.best_seconds = min(trial.seconds, self.best_seconds or trial.seconds)


PRESET = Preset("random", RandomPolicy, model="random", transfer=False)
