"""Parallel simulated annealing over points of a template: many chains walk at once, and the best points that any proposed are kept.

(spec: baselines.md, section 1.6, `sa_model_optimizer.py`)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.baselines.knobs import Point, Template
from tensorsmith.space.holes.kind import Array


@dataclass(frozen=True)
class Annealing:
    """Constants of the source."""

    chains: int = 128
    steps: int = 500
    hot: float = 1.0
    cold: float = 0.0
    patience: int = 50  # steps without a change of the best points
    persistent: bool = True  # chains go on from where they were, when the model has learned


class Annealer:
    """The chains of one template."""

    def __init__(self, template: Template, rng: np.random.Generator, settings: Annealing) -> None:
        self.template, self.rng, self.settings = template, rng, settings
        self.chains: list[Point] = []

    def best(
        self, score: Callable[[Sequence[Point]], Array], count: int, excluded: set[Point], stop: Callable[[], bool]
    ) -> list[Point]:
        """At most `count` points with the highest scores, the best first, none of those excluded and none below 0."""
        s, t = self.settings, self.template
        chains = self.chains
        if not chains or not s.persistent:
            chains = [t.random(self.rng) for _ in range(min(s.chains, t.size))]
        scores = score(chains)
        heap: list[tuple[float, Point]] = []
        kept: set[Point] = set()
        for point, value in zip(chains, scores.tolist()):
            _offer(heap, kept, count, point, value, excluded)
        heat = s.hot
        cooling = (s.hot - s.cold) / (s.steps + 1)
        changed = 0
        for step in range(s.steps):
            if stop() or step - changed > s.patience:
                break
            proposed = [t.walk(p, self.rng) for p in chains]
            new = score(proposed)
            accepted = self.rng.random(len(chains)) < np.exp(np.minimum((new - scores) / (heat + 1e-5), 1.0))
            chains = [b if yes else a for a, b, yes in zip(chains, proposed, accepted.tolist())]
            scores = np.where(accepted, new, scores)
            for point, value in zip(proposed, new.tolist()):
                if _offer(heap, kept, count, point, value, excluded):
                    changed = step
            heat -= cooling
        self.chains = chains
        return [point for value, point in sorted(heap, key=lambda one: (-one[0], one[1])) if value >= 0]


def _offer(heap: list[tuple[float, Point]], kept: set[Point], count: int, point: Point, value: float, excluded: set[Point]) -> bool:
    """Keeps a point, if it is among the best so far."""
    if point in kept or point in excluded or (len(heap) >= count and value <= heap[0][0]):
        return False
    if len(heap) >= count:
        kept.discard(heapq.heappop(heap)[1])
    heapq.heappush(heap, (value, point))
    kept.add(point)
    return True


def diverse(scores: Sequence[float], points: Sequence[Point], count: int, weight: float = 1.0) -> list[int]:
    """The numbers of `count` points, chosen greedily: a point's score, and `weight` for every knob value that no other one has yet.

    (spec: baselines.md, section 1.6, diversity; with scores of 0 it is the source's own, by diversity alone)
    """
    chosen: list[int] = []
    used: list[set[int]] = [set() for _ in (points[0] if points else ())]
    left = list(range(len(points)))
    while left and len(chosen) < count:
        gains = [scores[n] + weight * sum(v not in u for v, u in zip(points[n], used)) for n in left]
        best = left.pop(int(np.argmax(gains)))
        chosen.append(best)
        for value, known in zip(points[best], used):
            known.add(value)
    return chosen
