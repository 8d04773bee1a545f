"""What was good for a workload, carried over to one of the same stages with other extents.

Loops, places and rewrites are named, not numbered, so a structure carries over as it stands, or to the nearest that this space
has. Its sizes follow what they were chosen for:

    register tiles, copies laid out     the machine: kept, as far as the axis goes
    a block that was the whole axis     the axis: the whole of the new one
    any other block                     the caches: kept, as far as the axis goes
    loops that threads share            as many, or more until there is work for all

    C.i.2 = 8 of 512, C.j.1 = 128 of 128    ->    C.i.2 = 8 of 1000, C.j.1 = 200 of 200
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tensorsmith.errors import Refusal, UserError
from tensorsmith.space.holes.kind import Array, Column, Matrix
from tensorsmith.space.holes.registry import choice_kind, number_kind, number_kinds
from tensorsmith.space.population.population import Plan, Space, unique
from tensorsmith.space.population.repair import repair
from tensorsmith.space.sketch.nest import Choice
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.space.sketch.sketch import Candidate, Sketch


def adapt(space: Space, candidate: Candidate) -> list[tuple[int, Array]]:
    """Rows of a space that are nearest to a candidate of a similar workload, the best guess first.

    Nothing if the workloads differ in more than their extents, so that no sketch here has the candidate's stages. The second row,
    where it differs, cuts axes into pieces of nearly equal length.
    """
    found = _nearest_plan(space, candidate)
    if found is None or found[2] < 1.0:
        at_home = _at_home(space, candidate)
        again = None if at_home is None else _nearest_plan(space, at_home)
        if at_home is not None and again is not None and (found is None or again[2] > found[2]):
            found, candidate = again, at_home
    if found is None:
        return []
    number, options, _ = found
    plan = space.plans[number]
    rows = _carried(plan, options, candidate)
    return [(number, row) for row in unique(_settled(plan, repair(plan, rows), candidate))]


def _at_home(space: Space, candidate: Candidate) -> Candidate | None:
    """The same program as a point of its own workload's space: one made by hand may have fewer loops than the sketches have."""
    home = space.like(candidate.sketch.workload)
    found = home.find(candidate)
    return None if found is None else home.plans[found[0]].candidate(found[1])


# -- structure -----------------------------------------------------------------------------------------------------------


def _nearest_plan(space: Space, candidate: Candidate) -> tuple[int, dict[str, int], float] | None:
    """The sketch and the options that agree with a candidate in most nests, and in what share of them."""
    best: tuple[int, dict[str, int], float] | None = None
    stages = {n.stage for n in candidate.sketch.nests}
    for number, plan in enumerate(space.plans):
        choices = zip(plan.sketch.choices, plan.choices)
        options = {choice.hole: _nearest_option(plan, choice, column, candidate.sketch) for choice, column in choices}
        try:
            resolved = plan.resolve(np.array([0] * plan.numbers + list(options.values())))
        except (Refusal, UserError):
            continue
        if {n.stage for n in resolved.nests} != stages or _rewrites(resolved) != _rewrites(candidate.sketch):
            continue
        share = sum(resolved.nest(n.stage) == n for n in candidate.sketch.nests) / len(stages)
        if best is None or share > best[2]:
            best = number, options, share
    return best


def _rewrites(sketch: Sketch) -> list[str]:
    """The rewrites without their factors: what stages and axes there are."""
    return sorted(str(replace(r, factor=1) if isinstance(r, Rfactor) else r) for r in sketch.rewrites)


def _nearest_option(plan: Plan, choice: Choice, column: Column, sketch: Sketch) -> int:
    """The option that a candidate's structure has, or the one most like it."""
    kind = choice_kind(choice.kind)
    wanted = kind.option_of(choice, sketch)
    if wanted in column.options:
        return column.options.index(wanted)
    likes = [kind.likeness(wanted, option) for option in column.options]
    if max(likes) == -math.inf:
        return int(np.argmax(kind.weights(plan, column)))
    return int(np.argmax(likes))


# -- numbers -------------------------------------------------------------------------------------------------------------


def _carried(plan: Plan, options: Mapping[str, int], candidate: Candidate) -> Matrix:
    """Two rows, not repaired: numbers as they were, and a second guess."""
    rows = np.array([[options.get(c.hole, candidate.decisions.get(c.hole, c.idle)) for c in plan.columns]] * 2, np.int32)
    for kind in number_kinds():
        kind.carry(plan, rows, candidate)
    return rows


def _settled(plan: Plan, rows: Matrix, candidate: Candidate) -> Matrix:
    """Repaired rows, with the numbers that depend on what others came to."""
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns[: plan.numbers]):
        number_kind(c.kind).settle(plan, n, rows, found, candidate)
    return repair(plan, rows)
