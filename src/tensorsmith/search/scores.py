"""Scores of rows: features of a whole population at once, the prior, the cost model; each row once until the model learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorsmith.backends import backend_of
from tensorsmith.learn.features.rows import Batch, FeatureRows
from tensorsmith.learn.features.sets import wanted
from tensorsmith.learn.models.model import CostModel
from tensorsmith.space.population.population import Population, Space
from tensorsmith.targets.target import Target

Array = np.ndarray[Any, np.dtype[Any]]


_AT_A_TIME = 512  # rows between two looks at the watch: some tenths of a second


class Scorer:
    """Remembers the scores it gave: rows that survive a generation are not scored again."""

    def __init__(self, space: Space, prior: bool = True) -> None:
        """Without the `prior`, models add to nothing."""
        self.space, self.prior = space, prior
        self._known: dict[tuple[int, bytes], float] = {}

    def forget(self) -> None:
        """To be called when the model has changed."""
        self._known.clear()

    def __call__(
        self, model: CostModel, populations: Sequence[Population], watch: Callable[[], None] = lambda: None
    ) -> list[Array]:
        """The scores of each population's rows. `watch` is called now and then, and may raise; what is done by then is kept."""
        keys = [[(p.plan, row.tobytes()) for row in np.ascontiguousarray(p.matrix, np.int32)] for p in populations]
        fresh = [np.array([n for n, key in enumerate(ks) if key not in self._known], np.int64) for ks in keys]
        for numbers in _portions([len(f) for f in fresh]):
            watch()
            rows, prior, places = describe(self.space, [populations[n].take(fresh[n]) for n in numbers], model)
            scores = model.predict(rows, prior if self.prior else np.zeros_like(prior))
            for (place, row), score in zip(places, scores.tolist()):
                number = numbers[place]
                self._known[keys[number][int(fresh[number][row])]] = score
        return [np.array([self._known[key] for key in ks], float) for ks in keys]


def _portions(sizes: Sequence[int]) -> list[list[int]]:
    """Numbers of populations with rows in them, in portions of not much more than `_AT_A_TIME` rows."""
    found: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if size:
            if room <= 0:
                found.append([])
                room = _AT_A_TIME
            found[-1].append(number)
            room -= size
    return found


def describe(
    space: Space, populations: Sequence[Population], model: CostModel | None = None
) -> tuple[FeatureRows, Array, list[tuple[int, int]]]:
    """Features and prior scores (log2 of the speed) of all rows, as a model is asked with them, and which row of which population
    each candidate is."""
    batches, places = [], []
    for number, p in enumerate(populations):
        for group in space.plans[p.plan].groups(p.matrix):
            batches.append((group.sketch, group.decisions))
            places += [(number, row) for row in group.rows.tolist()]
    return *features_for(model, batches, space.target), places


def features_for(model: CostModel | None, batches: Sequence[Batch], target: Target) -> tuple[FeatureRows, Array]:
    """Features and prior scores of candidates, as a model is asked with them. The prior is worked out from the backend's own
    features: with others it is 0, and the model learns all there is to know."""
    other, backend = wanted(model), backend_of(target)
    if other is not None:
        rows = other.extract_rows(batches)
        return rows, np.zeros(rows.candidates)
    rows = backend.extract_rows(batches, target)
    return rows, backend.prior_scores(rows, target)
