"""Seeds: a handful of rows per sketch that the target's facts alone call for, and the default schedule where it is one of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorsmith.errors import Refusal
from tensorsmith.space.holes.kind import Matrix
from tensorsmith.space.holes.registry import choice_kind, number_kind
from tensorsmith.space.population.population import Plan, Population, Space, unique
from tensorsmith.space.population.repair import repair


def seeds(space: Space, watch: Callable[[], None] = lambda: None) -> list[Population]:
    """Rows to start from; the same every time. The default schedule comes first in its sketch.

    `watch` is called before each sketch, and may raise.
    """
    found = {}
    for n, plan in enumerate(space.plans):
        watch()
        found[n] = seed_rows(plan)
    try:
        known = space.find(space.tactics.default_candidate(space.workload))
    except Refusal:
        known = None
    if known is not None:
        found[known[0]] = unique(np.concatenate([known[1][None, :], found[known[0]]]))
    return [Population(n, rows) for n, rows in found.items()]


def seed_rows(plan: Plan) -> Matrix:
    """The seeds of one sketch."""
    return unique(repair(plan, plan.tactics.seed_rows(plan, starts(plan))))


def starts(plan: Plan) -> Matrix:
    """A row for each variant of the structure that seeds go through, every hole at the value that its kind begins with."""
    variants = max((choice_kind(c.kind).variants(c) for c in plan.choices), default=1)
    numbers = [number_kind(c.kind).start(plan, c) for c in plan.columns[: plan.numbers]]
    return np.array(
        [[*numbers, *(choice_kind(c.kind).start(plan, c, variant) for c in plan.choices)] for variant in range(variants)], np.int32
    )
