"""AutoTVM's tuners (spec: baselines.md, section 1.6): each proposes points of one template and is told their throughputs.

random     without replacement           grid    in order
ga         a genetic algorithm           model   annealing under a model that learns
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tensorsmith.baselines.annealing import Annealer, Annealing, diverse
from tensorsmith.baselines.knobs import Point, Template
from tensorsmith.learn.models.model import CostModel, Samples
from tensorsmith.space.holes.kind import Array


class Tuner(Protocol):
    """Of one template. `propose` is asked until it gives a point that is new; None: there is no other."""

    def propose(self, stop: Callable[[], bool]) -> Point | None: ...

    def observe(self, point: Point, seconds: float | None) -> None: ...


class Unvisited:
    """The points that were not proposed yet, in a random order or in their own."""

    def __init__(self, template: Template, rng: np.random.Generator | None) -> None:
        self.template, self.rng = template, rng
        self.visited: set[Point] = set()
        self._next = 0  # in order
        self._order: list[int] | None = None  # of what is left, when that is little

    def visit(self, point: Point) -> None:
        self.visited.add(point)

    @property
    def left(self) -> int:
        return self.template.size - len(self.visited)

    def take(self) -> Point | None:
        """A point, visited from now on."""
        if self.left <= 0:
            return None
        point = self._in_order() if self.rng is None else self._at_random(self.rng)
        if point is not None:
            self.visit(point)
        return point

    def _in_order(self) -> Point | None:
        while self._next < self.template.size:
            point = self.template.point(self._next)
            self._next += 1
            if point not in self.visited:
                return point
        return None

    def _at_random(self, rng: np.random.Generator) -> Point | None:
        for _ in range(64):
            point = self.template.random(rng)
            if point not in self.visited:
                return point
        if self._order is None:  # nearly all are visited: in a random order, those that are left
            self._order = rng.permutation(self.template.size).tolist()
        while self._order:
            point = self.template.point(self._order.pop())
            if point not in self.visited:
                return point
        return None


class IndexTuner:
    """Random without replacement, or in order."""

    def __init__(self, template: Template, rng: np.random.Generator, in_order: bool = False) -> None:
        self.unvisited = Unvisited(template, None if in_order else rng)

    def propose(self, stop: Callable[[], bool]) -> Point | None:
        return self.unvisited.take()

    def observe(self, point: Point, seconds: float | None) -> None:
        self.unvisited.visit(point)


# -- genetic ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Genetic:
    """Constants of `ga_tuner.py`."""

    population: int = 100
    elites: int = 3
    mutation: float = 0.1  # of each knob


class GaTuner:
    """Generations of points; parents by their throughputs, one-point crossover, knobs mutated to any value."""

    def __init__(self, template: Template, rng: np.random.Generator, settings: Genetic = Genetic()) -> None:
        self.template, self.rng, self.settings = template, rng, settings
        self.unvisited = Unvisited(template, rng)
        self.queue: list[Point] = []
        self.scores: dict[Point, float] = {}  # of the generation that is measured now
        self.generation: set[Point] = set()
        self.elites: list[tuple[float, Point]] = []
        self._first()

    def _first(self) -> None:
        for _ in range(min(self.settings.population, self.template.size)):
            point = self.unvisited.take()
            if point is not None:
                self.queue.append(point)
        self.generation = set(self.queue)

    def propose(self, stop: Callable[[], bool]) -> Point | None:
        if not self.queue:
            self._breed(stop)
        return self.queue.pop(0) if self.queue else None

    def observe(self, point: Point, seconds: float | None) -> None:
        self.unvisited.visit(point)
        if point in self.queue:
            self.queue.remove(point)
        if point in self.generation:
            self.scores[point] = 1.0 / seconds if seconds else 0.0

    def _breed(self, stop: Callable[[], bool]) -> None:
        s, rng = self.settings, self.rng
        if self.unvisited.left <= s.population:  # enumerate the rest
            while (point := self.unvisited.take()) is not None:
                self.queue.append(point)
            self.generation = set(self.queue)
            return
        pool = sorted([*((score, p) for p, score in self.scores.items()), *self.elites], key=lambda one: (-one[0], one[1]))
        self.elites = heapq.nlargest(s.elites, pool, key=lambda one: one[0])
        points = [p for _, p in pool] or [self.template.random(rng)]
        chance = np.array([score for score, _ in pool] or [1.0])
        chance = (chance + 1e-8) / max(float(chance.max()), 1e-8)
        chance /= chance.sum()
        tries = 0
        while len(self.queue) < s.population and tries < 100 * s.population and not stop():
            tries += 1
            a, b = (points[n] for n in rng.choice(len(points), 2, replace=len(points) < 2, p=chance))
            cut = int(rng.integers(len(a))) if len(a) else 0
            child = tuple(
                int(rng.integers(len(knob))) if rng.random() < s.mutation else value
                for knob, value in zip(self.template.knobs, (*a[:cut], *b[cut:]))
            )
            if child not in self.unvisited.visited:
                self.unvisited.visit(child)
                self.queue.append(child)
        if not self.queue and not stop() and (point := self.unvisited.take()) is not None:
            self.queue.append(point)
        self.generation, self.scores = set(self.queue), {}


# -- by a model ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelBased:
    """Constants of `model_based_tuner.py`."""

    plan: int = 64  # points that are planned at a time, and samples after which the model learns
    random: float = 0.05  # of a plan's end
    least: float = 1e-6  # throughput from which on something ran
    diversity: float = 0.0  # r: the plan is chosen among the best r times as many, by diversity; 0 is off
    alpha: float = (
        0.0  # of these: by score, and so much for every knob value that is new (the paper); 0: by diversity alone (the source)
    )
    annealing: Annealing = Annealing()  # noqa: RUF009  frozen


class ModelTuner:
    """Plans by annealing under a model. The first plan is random, and so is the end of each later one."""

    def __init__(
        self,
        template: Template,
        rng: np.random.Generator,
        model: CostModel,
        describe: Callable[[Template, Sequence[Point]], tuple[list[Array], Array]],
        predict: Callable[[CostModel, Template, Sequence[Point]], Array],
        settings: ModelBased = ModelBased(),
    ) -> None:
        """`describe` gives rows and bases of points to learn from, `predict` scores of points."""
        self.template, self.rng, self.model, self.settings = template, rng, model, settings
        self.describe, self.predict = describe, predict
        self.unvisited = Unvisited(template, rng)
        self.annealer = Annealer(template, rng, settings.annealing)
        self.plan: list[Point] = []
        self.seconds: dict[Point, float | None] = {}
        self.fits = 0
        self._planned = not model.ready()  # one that has learned from others makes the first plan too

    def propose(self, stop: Callable[[], bool]) -> Point | None:
        s = self.settings
        if self._due():
            self._fit()
            self._replan(stop)
        while len(self.plan) > int(s.random * s.plan):
            point = self.plan.pop(0)
            if point not in self.unvisited.visited:
                self.unvisited.visit(point)
                return point
        if self.plan:
            self.plan.pop(0)
        return self.unvisited.take()

    def observe(self, point: Point, seconds: float | None) -> None:
        self.unvisited.visit(point)
        self.seconds[point] = seconds

    def _due(self) -> bool:
        if not self._planned:
            return True
        ran = any(t is not None and 1.0 / t > self.settings.least for t in self.seconds.values())
        return ran and len(self.seconds) >= self.settings.plan * (self.fits + 1)

    def _fit(self) -> None:
        if not self._planned:
            self._planned = True
            return
        points = list(self.seconds)
        best = min(t for t in self.seconds.values() if t is not None)
        rows, bases = self.describe(self.template, points)
        samples = Samples()
        for point, row, base in zip(points, rows, bases.tolist()):
            took = self.seconds[point]
            samples.add(row, best / took if took else 0.0, self.template.space.workload.key, base)
        self.model.update(samples)
        self.fits += 1

    def _replan(self, stop: Callable[[], bool]) -> None:
        s = self.settings
        if not self.model.ready():
            self.plan = []
            return

        def score(points: Sequence[Point]) -> Array:
            return self.predict(self.model, self.template, points)

        count = int(s.diversity * s.plan) if s.diversity >= 1 else s.plan
        self.plan = self.annealer.best(score, count, self.unvisited.visited, stop)
        if s.diversity >= 1 and self.plan:
            scores = score(self.plan).tolist() if s.alpha else [0.0] * len(self.plan)
            self.plan = [self.plan[n] for n in diverse(scores, self.plan, s.plan, s.alpha or 1.0)]
