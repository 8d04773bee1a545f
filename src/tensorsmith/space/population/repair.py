"""Repair: rows brought back to what can be built and is worth a try, all at once.

Sampling, mutation and crossover may give any integers; `repair` clamps every value to its domain and shrinks what would be too
large: buffers of one thread, and what the machine's tactics find too large. Values that come to the same are made the same
(a size larger than what is left of an axis, threads sharing loops that run once, holes that a row's structure does not have).
"""

from __future__ import annotations

import numpy as np

from tensorsmith.space.holes.kind import Matrix
from tensorsmith.space.holes.registry import number_kind
from tensorsmith.space.population.halving import ROUNDS, Factor, halve_largest
from tensorsmith.space.population.population import Plan


def repair(plan: Plan, matrix: Matrix) -> Matrix:
    """A copy of the rows in which all of them are legal and in their simplest form."""
    rows = np.clip(matrix, plan.low, plan.high).astype(np.int32)
    if not len(rows):
        return rows
    _shrink_buffers(plan, rows)
    plan.tactics.shrink(plan, rows)
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns[: plan.numbers]):
        rows[:, n] = number_kind(c.kind).comes_to(plan, n, rows, found)
    return rows


def _shrink_buffers(plan: Plan, rows: Matrix) -> None:
    """Moves stages whose place needs too much memory to the root; where the place is fixed, makes the tiles around it smaller."""
    limit = plan.tactics.local_bytes
    for stage in plan.geometry.workload.stages:
        column, places = plan.geometry.places[stage.name]
        if stage.buffer().bytes <= limit and not _varies(plan, stage.name):
            continue
        if column is not None and len(places) > 1:
            found = plan.geometry.measure(rows)
            attached = ~found.at_root[stage.name] & ~found.inlined[stage.name]
            root = next((p.option for p in places if p.at is None and not p.inline), None)
            if root is not None:
                rows[attached & (found.region_bytes(stage) > limit), column] = root
            continue
        point = places[0].at
        if point is None:
            continue
        sizes = [n for n, c in enumerate(plan.columns) if c.loop is not None and c.stage == point.stage]
        for _ in range(ROUNDS):
            large = plan.geometry.measure(rows).region_bytes(stage) > limit
            if not large.any() or not sizes:
                break
            part = rows[large]
            values = [Factor(part[:, n], n) for n in sizes]
            halve_largest(part, values, np.ones(len(part), bool))
            rows[large] = part


def _varies(plan: Plan, stage: str) -> bool:
    return any(column is not None for column, _ in plan.geometry.extents[stage].values())
