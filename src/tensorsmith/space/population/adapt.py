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
from tensorsmith.space.population.embed import option_of
from tensorsmith.space.population.geometry import Matrix
from tensorsmith.space.population.population import Array, Column, Plan, Space, unique
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import balanced, option_weights, shared_loops
from tensorsmith.space.sketch.loops import AttachPoint, Loops, NestLoop
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.space.sketch.sketch import Candidate, Sketch

_STEPS_PER_CORE = 4  # of a shared loop, so that no thread waits long for the last


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
    rows = _carry_sizes(plan, options, candidate)
    return [(number, row) for row in unique(_share(plan, repair(plan, rows), candidate))]


def _at_home(space: Space, candidate: Candidate) -> Candidate | None:
    """The same program as a point of its own workload's space: one made by hand may have fewer loops than the sketches have."""
    home = Space(candidate.sketch.workload, space.target)
    found = home.find(candidate)
    return None if found is None else home.plans[found[0]].candidate(found[1])


# -- structure -----------------------------------------------------------------------------------------------------------


def _nearest_plan(space: Space, candidate: Candidate) -> tuple[int, dict[str, int], float] | None:
    """The sketch and the options that agree with a candidate in most nests, and in what share of them."""
    best: tuple[int, dict[str, int], float] | None = None
    stages = {n.stage for n in candidate.sketch.nests}
    for number, plan in enumerate(space.plans):
        options = {c.hole: _nearest_option(plan, c, candidate.sketch) for c in plan.columns[plan.numbers :]}
        try:
            resolved = plan.resolve(np.array([0] * plan.numbers + [options[c.hole] for c in plan.columns[plan.numbers :]]))
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


def _nearest_option(plan: Plan, column: Column, sketch: Sketch) -> int:
    """The option that a candidate's structure has, or the one most like it."""
    (choice,) = (c for c in plan.sketch.choices if c.hole == column.hole)
    wanted = option_of(choice, sketch)
    if wanted in column.options:
        return column.options.index(wanted)
    likes = [_likeness(column.kind, wanted, option) for option in column.options]
    if max(likes) == -math.inf:
        return int(np.argmax(option_weights(plan, column)))
    return int(np.argmax(likes))


def _likeness(kind: str, wanted: str, option: str) -> float:
    """How like two options are; minus infinity where there is nothing to compare."""
    if kind == "loops":
        mine, theirs = _axes(wanted), _axes(option)
        return -float(sum(a != b for a, b in zip(mine, theirs))) - abs(len(mine) - len(theirs))
    if kind == "at":
        if {wanted, option} & {"root", "inline"}:
            return -math.inf
        mine, theirs = AttachPoint.read(wanted), AttachPoint.read(option)
        return -abs(mine.depth - theirs.depth) if mine.stage == theirs.stage else -math.inf
    if wanted.isdigit() and option.isdigit():  # "factor", "rows"
        return -abs(math.log2(1 + int(wanted)) - math.log2(1 + int(option)))
    return -math.inf


def _axes(loops: str) -> list[str]:
    """The axes of loops in order, and where the register tile begins."""
    read = Loops.read(loops)
    return [*(loop.axis for loop in read.outer), "|", *(loop.axis for loop in read.tile)]


# -- sizes ---------------------------------------------------------------------------------------------------------------


def _carry_sizes(plan: Plan, options: Mapping[str, int], candidate: Candidate) -> Matrix:
    """Two rows, not repaired: sizes as they were, and pieces of equal length."""
    rows = np.array([[options.get(c.hole, candidate.decisions.get(c.hole, c.idle)) for c in plan.columns]] * 2, np.int32)
    old = candidate.sketch.rewritten
    for nest in candidate.sketch.nests:
        if nest.follows is not None:
            continue
        for axis, parts in nest.parts.items():
            before = old.stage(nest.stage).axis(axis).extent
            now = int(plan.geometry.extent(nest.stage, axis, rows[:1])[0])
            covered, done = 1, np.ones(2, np.int64)  # of the old axis, and of the new one, by the parts inside
            for part in reversed(range(1, parts)):
                loop = NestLoop(axis, part)
                hole = f"{nest.stage}.{loop}"
                size = candidate.decisions[hole]
                whole = size > 1 and loop not in nest.tile and covered * size >= before
                left = np.maximum(1, -(-now // done))
                new = np.array([1, 1]) * (left if whole else np.minimum(size, left))
                if loop != nest.vector:
                    new[1] = balanced(left[1:], new[1:])[0]
                if hole in plan.names:
                    rows[:, plan.names[hole]] = new
                covered, done = covered * size, done * new
    return rows


def _share(plan: Plan, rows: Matrix, candidate: Candidate) -> Matrix:
    """Rows with threads where the candidate has some, and enough steps for all of them where there are any."""
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns):
        if c.kind == "parallel" and candidate.decisions.get(c.hole, 0) > 0:
            enough = shared_loops(plan, c.stage, rows, found, np.full(len(rows), _STEPS_PER_CORE * plan.target.cores))
            rows[:, n] = np.maximum(rows[:, n], enough)
    return repair(plan, rows)
