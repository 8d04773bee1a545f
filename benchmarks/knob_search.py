"""Our way to search, over points of a list of knobs instead of schedules: trees that learn while it runs, and neighbours of the
best point, the most promising first.

It begins at random. From then on it stands at a point and asks the trees which of its neighbours (points that differ in one knob)
is the best, measures that, and moves on if it is better. Where no neighbour is, it goes on from the point that the trees like best
among some that are drawn, partly at random, partly crossed from the best so far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.trees import TreeModel, TreeSettings

Point = tuple[Any, ...]
Array = np.ndarray[Any, np.dtype[Any]]


class Points(Protocol):
    """The valid points of a space."""

    def drawn(self, count: int) -> Sequence[Point]:
        """So many at random."""

    def neighbours(self, point: Point) -> Sequence[Point]:
        """Those that differ in one knob."""

    def __contains__(self, point: Point) -> bool: ...


@dataclass(frozen=True)
class Settings:
    """Chosen on convolution_milo of A100 and A4000; W6600 and dedispersion_milo were not looked at."""

    begin: int = 12  # points at random
    learn: int = 4  # points between two updates of the trees
    pool: int = 64  # points that are drawn where no neighbour is better
    crossed: float = 0.5  # share of them that are crossed from the best
    parents: int = 6
    trees: TreeSettings = field(
        default_factory=lambda: TreeSettings(trees=40, leaves=6, rate=0.12, least_in_leaf=3, features=0.7, warm=10)
    )


def search(points: Points, measure: Callable[[Point], float], rng: np.random.Generator, settings: Settings = Settings()) -> None:
    """Goes on until `measure` raises. It gives the time of a point; what is not a finite number failed."""
    _Search(points, measure, rng, settings).run()


class _Search:
    def __init__(self, points: Points, measure: Callable[[Point], float], rng: np.random.Generator, settings: Settings) -> None:
        self.points, self.measure, self.rng, self.settings = points, measure, rng, settings
        self.times: dict[Point, float] = {}
        self.model: TreeModel | None = None
        self.learned = 0

    def run(self) -> None:
        for point in self.points.drawn(self.settings.begin):
            self.time(point)
        here = min(self.times, key=self.times.__getitem__)
        while True:
            better = self.climbed(here)
            if better is None:
                here = self.elsewhere()
                self.time(here)
            else:
                here = better

    def time(self, point: Point) -> float:
        if point not in self.times:
            found = self.measure(point)
            self.times[point] = found if isinstance(found, (int, float)) and 0 < found < 1e19 else math.inf
        return self.times[point]

    def climbed(self, here: Point) -> Point | None:
        """The first better neighbour, in the order in which the trees like them."""
        left = [p for p in self.points.neighbours(here) if p not in self.times]
        while left:
            best = int(np.argmax(self.scores(left)))
            point = left.pop(best)
            if self.time(point) < self.times[here]:
                return point
        return None

    def elsewhere(self) -> Point:
        """The most promising of some points that were not measured."""
        count = self.settings.pool
        pool = [p for p in self.points.drawn(count) if p not in self.times]
        parents = sorted(self.times, key=self.times.__getitem__)[: self.settings.parents]
        for _ in range(int(count * self.settings.crossed)):
            one, other = (parents[int(n)] for n in self.rng.integers(0, len(parents), 2))
            child = tuple(b if self.rng.random() < 0.5 else a for a, b in zip(one, other))
            near = self.points.neighbours(child) if child in self.points else ()
            mutated = [near[int(n)] for n in self.rng.permutation(len(near))[:2]]
            pool += [p for p in (child, *mutated) if p in self.points and p not in self.times]
        if not pool:
            return next(iter(self.points.drawn(1)))
        return pool[int(np.argmax(self.scores(pool)))]

    def scores(self, points: Sequence[Point]) -> Array:
        """What the trees say, or nothing but chance while they have not learned."""
        if len(self.times) - self.learned >= self.settings.learn:
            self.learn()
        chance = self.rng.random(len(points)) * 1e-6
        if self.model is None or not self.model.ready():
            return chance
        return np.asarray(self.model.predict(np.stack([described(p) for p in points])[:, None], np.zeros(len(points)))) + chance

    def learn(self) -> None:
        best = min(self.times.values())
        if not math.isfinite(best):
            return
        samples = Samples()
        for point, time in self.times.items():
            samples.add(described(point)[None], best / time, "")
        self.model, self.learned = TreeModel(self.settings.trees), len(self.times)
        self.model.update(samples)


def described(point: Point) -> Array:
    """A point for trees: its numbers, and the products and quotients of each two, as logarithms. A value that is no number
    counts as the sum of its letters."""
    numbers = [float(v) if isinstance(v, (int, float)) else float(sum(map(ord, str(v)))) for v in point]
    logs = [math.copysign(math.log2(abs(n) + 1), n) for n in numbers]
    pairs = [x for a, b in itertools.combinations(logs, 2) for x in (a + b, a - b)]
    return np.array([*numbers, *pairs], np.float32)
