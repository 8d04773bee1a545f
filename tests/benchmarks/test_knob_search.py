"""Our search over knobs: it finds what can be found, measures nothing twice, and takes failures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

import knob_search
from knob_search import Point

VALUES = ((1, 2, 4, 8, 16, 32), (1, 2, 4, 8), (0, 1), ("row", "column"), (1, 2, 3, 4))


class Grid:
    """All combinations of values but those whose first two multiply to more than 64."""

    def __init__(self, seed: int) -> None:
        self.all = [p for p in itertools.product(*VALUES) if p[0] * p[1] <= 64]
        self.set, self.rng = set(self.all), np.random.default_rng(seed)

    def drawn(self, count: int) -> list[Point]:
        return [self.all[n] for n in self.rng.choice(len(self.all), min(count, len(self.all)), replace=False)]

    def neighbours(self, point: Point) -> list[Point]:
        changed = [(*point[:n], v, *point[n + 1 :]) for n, values in enumerate(VALUES) for v in values if v != point[n]]
        return [p for p in changed if p in self]

    def __contains__(self, point: Point) -> bool:
        return point in self.set


class Spent(Exception):
    """The budget is."""


def smooth(p: Point) -> float:
    return 1 + (math.log2(p[0]) - 3) ** 2 + (math.log2(p[1]) - 2) ** 2 + p[2] + 2 * (p[3] == "row") + 0.5 * abs(p[4] - 3)


def searched(time: Callable[[Point], float], budget: int, seed: int = 0) -> list[tuple[Point, float]]:
    found: list[tuple[Point, float]] = []

    def measure(point: Point) -> float:
        if len(found) == budget:
            raise Spent
        found.append((point, time(point)))
        return found[-1][1]

    with pytest.raises(Spent):
        knob_search.search(Grid(seed), measure, np.random.default_rng(seed))
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_finds_the_best_of_a_smooth_space(seed: int) -> None:
    found = searched(smooth, 80, seed)
    assert min(t for _, t in found) == smooth((8, 4, 0, "column", 3)) == 1.0


def test_it_measures_valid_points_once_each() -> None:
    points = [p for p, _ in searched(smooth, 100)]
    assert len(set(points)) == len(points) == 100 and all(p in Grid(0) for p in points)


def test_points_that_fail_are_no_end() -> None:
    """Three of four fail, by numbers that are none, or by huge ones."""
    bad = itertools.cycle([math.nan, math.inf, 1e20])
    found = searched(lambda p: smooth(p) if p[4] == 3 else next(bad), 80)
    assert min(t for _, t in found if math.isfinite(t)) == 1.0


def test_where_all_points_fail() -> None:
    assert len(searched(lambda p: math.inf, 60)) == 60


def test_neighbours_that_trees_like_come_first() -> None:
    """With trees it needs fewer measurements than without."""

    def needed(warm: int, seed: int) -> int:
        settings = knob_search.Settings(trees=knob_search.TreeSettings(trees=40, leaves=6, rate=0.12, least_in_leaf=3, warm=warm))
        count = 0

        def measure(point: Point) -> float:
            nonlocal count
            count += 1
            if smooth(point) == 1.0:
                raise Spent
            return smooth(point)

        with pytest.raises(Spent):
            knob_search.search(Grid(seed), measure, np.random.default_rng(seed), settings)
        return count

    learning, blind = ([needed(warm, seed) for seed in range(6)] for warm in (10, 1 << 30))
    assert np.mean(learning) < np.mean(blind)
