"""A policy of one's own: hill climbing, from the best program so far to its neighbours, or somewhere else if none is better.

python examples/policy_hill_climb.py
tensorsmith tune GMM-1-b1 --policy examples/policy_hill_climb.py:HillClimb
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import tensorsmith as ts
from tensorsmith.learn.models.model import CostModel
from tensorsmith.search.policy import never
from tensorsmith.search.seen import Seen
from tensorsmith.search.trial import Trial
from tensorsmith.space.population.evolve import mutate
from tensorsmith.space.population.population import Population, Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate

PATIENCE = 16  # neighbours that were no better, after which it begins somewhere else
DRAWS = 20  # in a row without a new program: then the space is exhausted


class HillClimb:
    """Uses neither hints nor model."""

    def __init__(self, space: Space, *, seed: int = 0, hints: Sequence[Candidate] = (), model: CostModel | None = None) -> None:
        self.space, self.rng, self.seen = space, np.random.default_rng(seed), Seen()
        self.here: tuple[float, int, np.ndarray] | None = None  # where it stands: seconds, sketch, row
        self.failed = 0  # neighbours that were no better
        self.best_seconds: float | None = None

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found: list[Candidate] = []
        fruitless = 0
        while len(found) < count and fruitless < DRAWS and not stop():
            before = len(found)
            for population in self._draw(count, elsewhere=fruitless > DRAWS // 2):
                candidates = (self.space.plans[population.plan].candidate(row) for row in population.matrix)
                found += [c for c in candidates if self.seen.take(c)][: count - len(found)]
            fruitless = 0 if len(found) > before else fruitless + 1
        return found

    def _draw(self, count: int, elsewhere: bool) -> list[Population]:
        """Neighbours of where it stands; or rows from anywhere."""
        if self.here is None or elsewhere:
            return sample(self.space, count, self.rng)
        _, plan, row = self.here
        return [Population(plan, mutate(self.space.plans[plan], np.tile(row, (2 * count, 1)), self.rng))]

    def tell(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            at = self.space.find(trial.candidate) if trial.candidate.sketch.workload.key == self.space.workload.key else None
            if at is None:
                continue
            self.seen.take(trial.candidate)
            self.failed += 1
            if trial.seconds is not None:
                self.best_seconds = min(trial.seconds, self.best_seconds or trial.seconds)
                if self.here is None or trial.seconds < self.here[0]:
                    self.here, self.failed = (trial.seconds, *at), 0
            if self.failed >= PATIENCE:
                self.here, self.failed = None, 0

    def finish(self, count: int) -> list[Candidate]:
        return []  # it climbs all the time


if __name__ == "__main__":
    A, B, k = ts.placeholder((128, 128), name="A"), ts.placeholder((128, 128), name="B"), ts.reduce_axis(128, name="k")
    C = ts.compute((128, 128), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
    print(ts.tune([A, B, C], trials=32, policy=HillClimb).benchmark())
