"""A cost that is made up, so that a search can be judged without a clock: every candidate has one, and the best is known.

What the searches here begin with is random: no default schedule, no seeds, no records. The best sizes are no powers of two, and
no seed, rule or prior would guess them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.backends.cpu.machines import target

from tensorsmith.backends import space_of
from tensorsmith.learn.models.model import CostModel
from tensorsmith.ops import catalogue
from tensorsmith.search.policies.tensorsmith import Settings, TensorsmithPolicy
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.population import Plan, Population, Space
from tensorsmith.space.sketch.sketch import Candidate

Array = np.ndarray[Any, np.dtype[Any]]

TARGET = target()  # with the same space on every machine

#: a search without a head start
BARE = Settings(population=96, generations=3, structures=6, new_structures=4, known=False)

_BEST = 3  # of every size and of the copies laid out


def space(name: str = "GMM-2-b1") -> Space:
    return space_of(catalogue.get(name).workload(), TARGET)


def cost(candidate: Candidate) -> float:
    """How far the numbers of a candidate are from the best ones, in powers of two, summed over its holes; 0 is the best."""
    return sum(abs(math.log2(n / _BEST)) for hole, n in candidate.decisions.items() if not hole.endswith(".parallel"))


def trial(candidate: Candidate) -> Trial:
    """A candidate measured: the time grows with its cost."""
    return Trial(candidate, Status.OK, seconds=1e-3 * 2 ** cost(candidate))


def costs(plan: Plan, matrix: Array) -> Array:
    return np.array([cost(plan.candidate(row)) for row in matrix])


class Oracle:
    """Scores that are right, in the place of a policy's own. It notes how many rows it was asked about, and which at first."""

    def __init__(self, policy: TensorsmithPolicy) -> None:
        self.plans = policy.space.plans
        self.first: dict[int, Array] = {}  # by sketch
        self._known: dict[tuple[int, bytes], float] = {}
        policy.scorer = self  # type: ignore[assignment]

    @property
    def asked(self) -> int:
        return len(self._known)

    def __call__(self, model: CostModel, populations: Sequence[Population], watch: Callable[[], None]) -> list[Array]:
        self.first = self.first or {p.plan: p.matrix for p in populations}
        return [np.array([self._score(p.plan, row) for row in p.matrix]) for p in populations]

    def forget(self) -> None:
        pass

    def _score(self, plan: int, row: Array) -> float:
        key = plan, row.tobytes()
        if key not in self._known:
            self._known[key] = -cost(self.plans[plan].candidate(row))
        return self._known[key]


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's: 1 for the same order, 0 for none."""
    ranks = [np.argsort(np.argsort(x)) for x in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])
