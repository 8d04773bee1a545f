"""The rows of a batch: the best ones, but no program twice, not all of one structure, and none that hardly differs from another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorsmith.space.population.population import Plan, Population

Array = np.ndarray[Any, np.dtype[Any]]
Pick = tuple[int, Array]  # the number of a sketch, and a row of its matrix


def pick(
    plans: Sequence[Plan],
    populations: Sequence[Population],
    scores: Sequence[Array],
    count: int,
    *,
    is_new: Callable[[int, Array], bool],
    per_structure: float = 1.0,
    apart: float = 0.0,
) -> list[Pick]:
    """At most `count` rows by falling score. `is_new` is asked last, and only of rows that would be taken.

    At most the share `per_structure` is of one structure, and rows of one structure are at least `apart` from each other (see
    `coordinates`), unless too few are left otherwise.
    """
    if not any(len(p) for p in populations):
        return []
    plan = np.repeat([p.plan for p in populations], [len(p) for p in populations])
    row = np.concatenate([np.arange(len(p)) for p in populations])
    where = np.repeat(np.arange(len(populations)), [len(p) for p in populations])
    structure = np.concatenate([plans[p.plan].structures(p.matrix) for p in populations])
    order = np.lexsort((row, plan, -np.concatenate(scores)))
    most = max(1, int(np.ceil(per_structure * count)))
    used: dict[tuple[int, int], list[Array]] = {}
    chosen: list[Pick] = []
    crowded: list[int] = []

    def take(n: int) -> None:
        values = populations[where[n]].matrix[row[n]]
        if is_new(int(plan[n]), values):
            used.setdefault((int(plan[n]), int(structure[n])), []).append(coordinates(plans[plan[n]], values))
            chosen.append((int(plan[n]), values))

    for n in order.tolist():
        if len(chosen) >= count:
            return chosen
        others = used.get((int(plan[n]), int(structure[n])), [])
        if len(others) >= most:
            continue
        if apart and others:
            here = coordinates(plans[plan[n]], populations[where[n]].matrix[row[n]])
            if np.abs(np.array(others) - here).sum(axis=1).min() < apart:
                crowded.append(n)
                continue
        take(n)
    for n in crowded:
        if len(chosen) >= count:
            break
        if len(used[int(plan[n]), int(structure[n])]) < most:
            take(n)
    return chosen


def coordinates(plan: Plan, row: Array) -> Array:
    """Where a row lies: sizes and copies by their logarithm to base 2, so that 7 and 8 are near and 1 and 2 are not."""
    return np.where(plan.logarithmic, np.log2(np.maximum(row, 1)), row)
