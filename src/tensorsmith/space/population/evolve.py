"""Mutation and crossover of rows, as operations on columns.

A mutation changes one thing of a row, or a few: a tile size (moved from one part of an axis to another, stepped, doubled,
halved, drawn anew), a whole register tile, the number of shared loops, the copies laid out, or the structure. Crossover is the
paper's: every node of the computation takes all its columns from one of two parents; nests that share tiles are one node. Both
end with a repair.

Features are computed structure by structure, so the number of new structures in one call is limited: rows beyond it keep their
old one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.space.population.geometry import Array, Matrix
from tensorsmith.space.population.population import Plan
from tensorsmith.space.population.repair import LIMITS, Limits, repair
from tensorsmith.space.population.sampling import block_sizes, divisors, fill_tile, option_weights, register_tile, unroll_values


@dataclass(frozen=True)
class Mutation:
    """How often what is changed, and how much. The paper's weights favour tile sizes alone; its structures cannot change much."""

    size: float = 0.65
    tile: float = 0.10  # a register tile drawn anew
    unroll: float = 0.07
    parallel: float = 0.06
    structure: float = 0.12
    more: float = 0.3  # the chance of one more change, again and again, up to four
    new_structures: int = 4
    limits: Limits = LIMITS


MUTATION = Mutation()


def mutate(plan: Plan, matrix: Matrix, rng: np.random.Generator, mutation: Mutation = MUTATION) -> Matrix:
    """Each row with one change or a few."""
    rows = matrix.astype(np.int32, copy=True)
    if not len(rows):
        return rows
    tiles = [t for n in plan.sketch.nests if n.follows is None and (t := register_tile(plan, n)) is not None]
    groups = {
        "size": [n for n, c in enumerate(plan.columns) if c.kind == "size" and c.high > 1],
        "tile": list(range(len(tiles))),
        "unroll": [n for n, c in enumerate(plan.columns) if c.kind == "unroll"],
        "parallel": [n for n, c in enumerate(plan.columns) if c.kind == "parallel" and c.high > 0],
        "structure": [n for n, c in enumerate(plan.columns) if c.options and c.high > 0],
    }
    kinds = [k for k, members in groups.items() if members]
    if not kinds:
        return repair(plan, rows, mutation.limits)
    weights = np.array([getattr(mutation, k) for k in kinds])
    active = np.ones(len(rows), bool)
    for _ in range(4):
        chosen = rng.choice(len(kinds), len(rows), p=weights / weights.sum())
        for number, kind in enumerate(kinds):
            here = np.flatnonzero(active & (chosen == number))
            if not len(here):
                continue
            if kind == "size":
                _mutate_sizes(plan, rows, here, np.array(groups[kind])[rng.integers(0, len(groups[kind]), len(here))], rng)
            elif kind == "tile":
                for tile, part in zip(tiles, _dealt(here, len(tiles), rng)):
                    drawn = rows[part]
                    fill_tile(plan, tile, drawn, rng)
                    rows[part] = drawn
            else:
                for column, part in zip(groups[kind], _dealt(here, len(groups[kind]), rng)):
                    rows[part, column] = _other_values(plan, column, len(part), rng)
        active &= rng.random(len(rows)) < mutation.more
    _limit_structures(plan, rows, matrix, mutation.new_structures, rng)
    return repair(plan, rows, mutation.limits)


def _dealt(rows: Array, count: int, rng: np.random.Generator) -> list[Array]:
    """Rows dealt at random to `count` hands."""
    hand = rng.integers(0, count, len(rows))
    return [rows[hand == n] for n in range(count)]


def _other_values(plan: Plan, column: int, count: int, rng: np.random.Generator) -> Array:
    c = plan.columns[column]
    if c.kind == "unroll":
        return rng.choice(np.array(unroll_values(plan, c.stage)), count)
    if c.kind == "parallel":
        return rng.integers(0, c.high + 1, count)
    weights = np.sqrt(option_weights(plan, c))
    return rng.choice(len(weights), count, p=weights / weights.sum())


def _mutate_sizes(plan: Plan, rows: Matrix, here: Array, columns: Array, rng: np.random.Generator) -> None:
    """One move for each of the rows `here`, of the size in the column given for it."""
    move = rng.random(len(here))
    _exchange(plan, rows, here[move < 0.4], columns[move < 0.4], rng)
    lanes = plan.lanes
    step = (move >= 0.4) & (move < 0.6)
    rows[here[step], columns[step]] += rng.choice([-1, 1], step.sum()) * lanes[columns[step]]
    double = (move >= 0.6) & (move < 0.7)
    rows[here[double], columns[double]] *= 2
    half = (move >= 0.7) & (move < 0.8)
    rows[here[half], columns[half]] = (rows[here[half], columns[half]] + 1) // 2
    anew = move >= 0.8
    per = lanes[columns[anew]]
    most = np.maximum(1, np.where(per > 1, np.minimum(4, plan.high[columns[anew]] // per), plan.high[columns[anew]]))
    rows[here[anew], columns[anew]] = block_sizes(most, rng) * per


def _exchange(plan: Plan, rows: Matrix, here: Array, columns: Array, rng: np.random.Generator) -> None:
    """The paper's move: a factor of one part of an axis goes to another part, the product stays."""
    if not len(here):
        return
    group = plan.axes
    for axis in np.unique(group[columns]):
        members = np.flatnonzero(group == axis)
        mine = group[columns] == axis
        part = here[mine]
        c = plan.columns[int(members[0])]
        sizes = rows[np.ix_(part, members)].astype(np.int64)
        outermost = -(-plan.geometry.extent(c.stage, c.axis, rows[part]) // np.maximum(1, sizes.prod(axis=1)))
        sizes = np.concatenate([np.maximum(1, outermost)[:, None], sizes], axis=1)
        target = np.searchsorted(members, columns[mine]) + 1  # one end is the chosen column
        other = (target + rng.integers(1, sizes.shape[1], len(part))) % sizes.shape[1]
        swap = rng.random(len(part)) < 0.5
        source, goal = np.where(swap, target, other), np.where(swap, other, target)
        lines = np.arange(len(part))
        factor = _random_divisor(sizes[lines, source], rng)
        sizes[lines, source] //= factor
        sizes[lines, goal] *= factor
        rows[np.ix_(part, members)] = np.minimum(sizes[:, 1:], plan.high[members])


def _random_divisor(values: Array, rng: np.random.Generator) -> Array:
    """A divisor above 1 of each value, all of them equally likely; 1 for 1."""
    numbers, inverse = np.unique(values, return_inverse=True)
    lists = [divisors(int(v))[1:] or [1] for v in numbers]
    table = np.zeros((len(lists), max(map(len, lists))), np.int64)
    for n, found in enumerate(lists):
        table[n, : len(found)] = found
    lengths = np.array([len(found) for found in lists])[inverse]
    return table[inverse, (rng.random(len(values)) * lengths).astype(np.int64)]


# -- crossover -----------------------------------------------------------------------------------------------------------


def nodes(plan: Plan) -> Array:
    """The node of each column: a stage, with those computed in its tiles and the copies made for it."""
    order = [n.stage for n in plan.sketch.nests]

    def owner(stage: str) -> str:
        nest = plan.sketch.nest(stage)
        if nest.follows is not None:
            return owner(nest.follows)
        return owner(nest.at.stage) if nest.at is not None else stage

    # a factor is a choice of the final stage of a reduction and sizes the partial one
    partial = {s: s[: -len(".rf")] for s in order if s.endswith(".rf")}
    return np.array([order.index(owner(partial.get(c.stage, c.stage))) for c in plan.columns])


def crossover(
    plan: Plan, a: Matrix, b: Matrix, rng: np.random.Generator, new_structures: int = 4, limits: Limits = LIMITS
) -> Matrix:
    """A child of each pair of rows: every node from one parent or the other."""
    return repair(plan, _crossed(plan, a, b, rng, new_structures), limits)


def offspring(plan: Plan, a: Matrix, b: Matrix, rng: np.random.Generator, mutation: Mutation = MUTATION) -> Matrix:
    """Crossover, then mutation, repaired once."""
    return mutate(plan, _crossed(plan, a, b, rng, mutation.new_structures), rng, mutation)


def _crossed(plan: Plan, a: Matrix, b: Matrix, rng: np.random.Generator, new_structures: int) -> Matrix:
    node = nodes(plan)
    from_b = rng.random((len(a), int(node.max(initial=0)) + 1)) < 0.5
    rows = np.where(from_b[:, node], b, a).astype(np.int32)
    _limit_structures(plan, rows, a, new_structures, rng, b)
    return rows


def _limit_structures(
    plan: Plan, rows: Matrix, old: Matrix, most: int, rng: np.random.Generator, also: Matrix | None = None
) -> None:
    """Keeps at most so many structures that no old row has; the other rows get back the structure they had."""
    code = plan.structures(rows)
    known = plan.structures(old if also is None else np.concatenate([old, also]))
    fresh = np.setdiff1d(code, known)
    if len(fresh) > most:
        dropped = np.isin(code, rng.permutation(fresh)[most:])
        rows[dropped, plan.numbers :] = old[dropped, plan.numbers :]
