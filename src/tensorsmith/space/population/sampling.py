"""Random rows: the first population of a search.

`uniform` is the paper's: exact divisors, every tuple of tile sizes of an axis equally likely. `target` knows the machine: what
sizes fit it, where stages are best computed, steps enough for all threads. Both fill a matrix column by column; none goes through
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.space.holes.kind import Matrix
from tensorsmith.space.holes.registry import choice_kind, number_kind, number_kinds
from tensorsmith.space.population.population import Plan, Population, Space
from tensorsmith.space.population.repair import repair


@dataclass(frozen=True)
class Sampling:
    """How to draw rows."""

    kind: str = "target"  # or "uniform"
    structures: int = 16  # different structures drawn per sketch: features are computed structure by structure


SAMPLING = Sampling()


def sample(space: Space, count: int, rng: np.random.Generator, sampling: Sampling = SAMPLING) -> list[Population]:
    """About `count` rows, shared evenly among the sketches of a space."""
    shares = np.bincount(np.arange(count) % len(space.plans), minlength=len(space.plans))
    return [Population(n, sample_plan(p, int(k), rng, sampling)) for n, (p, k) in enumerate(zip(space.plans, shares))]


def sample_plan(plan: Plan, count: int, rng: np.random.Generator, sampling: Sampling = SAMPLING) -> Matrix:
    """Rows of one sketch, repaired."""
    rows = np.tile(plan.low, (count, 1))
    if not count:
        return rows
    uniform = sampling.kind == "uniform"
    _draw_structures(plan, rows, rng, sampling.structures, uniform)
    for kind in number_kinds():
        kind.sample_together(plan, rows, rng, uniform)
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns[: plan.numbers]):
        number_kind(c.kind).sample(plan, n, rows, found, rng, uniform)
    return repair(plan, rows)


def _draw_structures(plan: Plan, rows: Matrix, rng: np.random.Generator, most: int, uniform: bool) -> None:
    """Options for all choices, out of a limited number of structures."""
    pool = min(len(rows), most)
    chosen = rng.integers(0, pool, len(rows))
    for n, c in enumerate(plan.choices, plan.numbers):
        weights = np.ones(len(c.options)) if uniform else choice_kind(c.kind).weights(plan, c)
        rows[:, n] = rng.choice(len(weights), pool, p=weights / weights.sum())[chosen]
