"""Batches: the best first, none twice, not all alike."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.backends import space_of
from tensorsmith.ops import catalogue
from tensorsmith.search.picking import coordinates, pick
from tensorsmith.space.population.population import Plan, Population
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import native

SPACE = space_of(catalogue.get("GMM-2-b1").workload(), native())


def drawn(count: int = 200, seed: int = 0) -> tuple[list[Population], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    populations = sample(SPACE, count, rng)
    return populations, [rng.random(len(p)) for p in populations]


def anything(plan: int, row: np.ndarray) -> bool:
    return True


def test_the_best_come_first() -> None:
    populations, scores = drawn()
    chosen = pick(SPACE.plans, populations, scores, 10, is_new=anything)
    known = {(p.plan, row.tobytes()): s for p, mine in zip(populations, scores) for row, s in zip(p.matrix, mine)}
    assert [known[plan, row.tobytes()] for plan, row in chosen] == sorted(np.concatenate(scores), reverse=True)[:10]


def test_what_is_not_new_is_left_out() -> None:
    populations, scores = drawn()
    first = pick(SPACE.plans, populations, scores, 10, is_new=anything)
    seen = {(plan, row.tobytes()) for plan, row in first}
    second = pick(SPACE.plans, populations, scores, 10, is_new=lambda plan, row: (plan, row.tobytes()) not in seen)
    assert len(second) == 10 and not seen & {(plan, row.tobytes()) for plan, row in second}


def test_not_too_many_of_one_structure() -> None:
    populations, scores = drawn()
    scores = [s + 100 * (n == 0) for n, s in enumerate(scores)]  # one sketch looks best by far
    chosen = pick(SPACE.plans, populations, scores, 12, is_new=anything, per_structure=0.25)
    structures = [(plan, int(SPACE.plans[plan].structures(row[None])[0])) for plan, row in chosen]
    assert len(chosen) == 12 and max(structures.count(s) for s in structures) <= 3


def near(plan: Plan) -> np.ndarray:
    """A row, itself with one size a step longer, and one with twice that size."""
    column = max((n for n, c in enumerate(plan.columns) if c.kind == "size" and not c.vector), key=lambda n: plan.columns[n].high)
    rows = np.repeat(np.array([[c.idle for c in plan.columns]], np.int32), 3, axis=0)
    rows[:, column] = [16, 17, 32]
    return rows


def test_rows_that_hardly_differ_wait_until_the_others_are_taken() -> None:
    rows = near(SPACE.plans[0])
    population, scores = [Population(0, rows)], [np.array([3.0, 2.0, 1.0])]

    def order(count: int, apart: float) -> list[int]:
        chosen = pick(SPACE.plans, population, scores, count, is_new=anything, apart=apart)
        return [next(n for n, r in enumerate(rows) if (r == row).all()) for _, row in chosen]

    assert order(2, 0.0) == [0, 1]
    assert order(2, 0.5) == [0, 2]
    assert order(3, 0.5) == [0, 2, 1]


def test_distances() -> None:
    plan = SPACE.plans[0]
    one, step, twice = (coordinates(plan, row) for row in near(plan))
    assert np.abs(one - step).sum() == pytest.approx(np.log2(17 / 16))
    assert np.abs(one - twice).sum() == pytest.approx(1)


def test_nothing_to_pick_from() -> None:
    assert pick(SPACE.plans, [], [], 3, is_new=anything) == []
