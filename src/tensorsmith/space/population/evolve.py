"""Mutation and crossover of rows, as operations on columns.

A mutation makes one move, or a few: of a tile size, of the number of shared loops, of whatever the kinds of holes and the machine's
tactics offer, or of the structure. Crossover is the paper's: every node of the computation takes all its columns from one of two
parents; nests that share tiles are one node. Both end with a repair.

Features are computed structure by structure, so the number of new structures in one call is limited: rows beyond it keep their
old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.space.holes.kind import Array, Matrix, Move, redrawing
from tensorsmith.space.holes.registry import choice_kind, kinds, number_kinds
from tensorsmith.space.population.population import Plan
from tensorsmith.space.population.repair import repair


@dataclass(frozen=True)
class Mutation:
    """How often what is changed, and how much. The paper's weights favour tile sizes alone; its structures cannot change much."""

    weights: Mapping[str, float] = field(default_factory=dict)  # by move; for others the weight that their kind of hole gives them
    structure: float = 0.12  # of one option drawn anew: structures differ more than sizes do, and each new one costs a lowering
    more: float = 0.3  # the chance of one more change, again and again: most children are near, some get out of a dead end
    most: int = 4  # changes of one row; with more than that little of the parent is left
    new_structures: int = 4


MUTATION = Mutation()


def mutate(plan: Plan, matrix: Matrix, rng: np.random.Generator, mutation: Mutation = MUTATION) -> Matrix:
    """Each row with one change or a few."""
    rows = matrix.astype(np.int32, copy=True)
    if not len(rows):
        return rows
    moves = _moves(plan, mutation)
    if not moves:
        return repair(plan, rows)
    weights = np.array([mutation.weights.get(m.name, m.weight) for m in moves])
    active = np.ones(len(rows), bool)
    for _ in range(mutation.most):
        chosen = rng.choice(len(moves), len(rows), p=weights / weights.sum())
        for number, move in enumerate(moves):
            here = np.flatnonzero(active & (chosen == number))
            if len(here):
                move.apply(rows, here, rng)
        active &= rng.random(len(rows)) < mutation.more
    _limit_structures(plan, rows, matrix, mutation.new_structures, rng)
    return repair(plan, rows)


def _moves(plan: Plan, mutation: Mutation) -> list[Move]:
    """What can be changed in rows of a plan: numbers, the likeliest first, then the structure."""
    offered = [*(m for kind in number_kinds() for m in kind.moves(plan)), *plan.tactics.moves(plan)]
    moves = sorted(offered, key=lambda m: -m.weight)
    open_choices = [n for n, c in enumerate(plan.choices, plan.numbers) if c.high > 0]
    if open_choices:
        moves.append(Move("structure", mutation.structure, redrawing(open_choices, lambda *args: _other_options(plan, *args))))
    return moves


def _other_options(plan: Plan, column: int, count: int, rng: np.random.Generator) -> Array:
    """Options by the square roots of their weights: what a sample seldom has is tried more often here."""
    c = plan.columns[column]
    weights = np.sqrt(choice_kind(c.kind).weights(plan, c))
    return rng.choice(len(weights), count, p=weights / weights.sum())


# -- crossover -----------------------------------------------------------------------------------------------------------


def nodes(plan: Plan) -> Array:
    """The node of each column: a stage, with those computed in its tiles and the copies made for it."""
    order = [n.stage for n in plan.sketch.nests]
    partial = plan.sketch.partial  # a factor is a choice of the final stage of a reduction and sizes the partial one

    def owner(stage: str) -> str:
        nest = plan.sketch.nest(stage)
        if nest.follows is not None:
            return owner(nest.follows)
        return owner(nest.at.stage) if nest.at is not None else stage

    stages = [kinds()[c.kind].node(plan, c) for c in plan.columns]
    return np.array([order.index(owner(partial.get(stage, stage))) for stage in stages])


def crossover(plan: Plan, a: Matrix, b: Matrix, rng: np.random.Generator, new_structures: int = 4) -> Matrix:
    """A child of each pair of rows: every node from one parent or the other."""
    return repair(plan, _crossed(plan, a, b, rng, new_structures))


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
