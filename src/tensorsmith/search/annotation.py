"""The paper's random annotation and mutation of sketches, as operations on rows: exact divisors, and factors that move.

    annotate(plan, 512, rng, chances)        rows drawn at random
    mutate(plan, rows, rng, chances)         each with one change, and which of them could be changed

What cannot be built is made smaller afterwards (`repair`), so sizes may end up as no divisors; Ansor drops such programs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorsmith.program.unrolling import PRAGMA, steps_under_pragma
from tensorsmith.space.holes.kind import Array, Matrix, dealt
from tensorsmith.space.holes.registry import number_kind
from tensorsmith.space.holes.size import divisor_tuples, exchange
from tensorsmith.space.holes.unroll import reduction_steps
from tensorsmith.space.population.population import Plan
from tensorsmith.space.population.repair import repair
from tensorsmith.space.sketch.loops import NestLoop


@dataclass(frozen=True)
class Chances:
    """How numbers are drawn, and how likely each kind of mutation is."""

    size: float
    unroll: float
    location: float
    parallel: float
    innermost: int = 64  # the largest innermost tile
    by_primes: bool = False  # each prime's exponent on its own (`SamplePerfectTile`), instead of every tuple as likely
    pragma: tuple[int, ...] = PRAGMA  # stores of an unrolled body, at most
    move_stages: bool = True  # whether the places of stages are open
    structures: int = 16  # drawn at a time of one sketch: features are computed structure by structure


def annotate(plan: Plan, count: int, rng: np.random.Generator, chances: Chances) -> Matrix:
    """Rows of one sketch with everything that is open drawn at random."""
    rows = np.tile(plan.low, (count, 1))
    if not count:
        return rows
    if chances.move_stages:
        pool = min(count, chances.structures)
        chosen = rng.integers(0, pool, count)
        for n, c in enumerate(plan.choices, plan.numbers):
            rows[:, n] = rng.integers(0, len(c.options), pool)[chosen]
    _draw_tiles(plan, rows, rng, chances)
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns[: plan.numbers]):
        if c.kind == "unroll":
            _draw_pragma(plan, chances.pragma, n, rows, np.arange(count), rng)
        elif c.loop is None:
            number_kind(c.kind).sample(plan, n, rows, found, rng, uniform=True)
    return repair(plan, rows)


def programs(plan: Plan, chances: Chances) -> int:
    """How many different annotations a sketch has, before what cannot be built is made smaller. Where a choice of the sketch
    decides how long an axis is, its longest counts."""
    total = 1
    for nest in plan.sketch.nests:
        if nest.follows is None:
            for axis, parts in nest.parts.items():
                total *= len(_tuples(plan.geometry.most(nest.stage, axis), parts - 1, chances.innermost))
    total *= math.prod(len(chances.pragma) for c in plan.columns if c.kind == "unroll")
    return total * (math.prod(len(c.options) for c in plan.choices) if chances.move_stages else 1)


# -- tiles ---------------------------------------------------------------------------------------------------------------


def _draw_tiles(plan: Plan, rows: Matrix, rng: np.random.Generator, chances: Chances) -> None:
    for nest in plan.sketch.nests:
        if nest.follows is not None:
            continue
        for axis, parts in nest.parts.items():
            columns = [plan.names[f"{nest.stage}.{NestLoop(axis, p)}"] for p in range(1, parts)]
            extents = plan.geometry.extent(nest.stage, axis, rows)
            for extent in np.unique(extents) if columns else ():
                here = np.flatnonzero(extents == extent)
                rows[np.ix_(here, np.array(columns))] = draw_tiles(int(extent), parts, len(here), rng, chances)[:, 1:]


def draw_tiles(extent: int, parts: int, count: int, rng: np.random.Generator, chances: Chances) -> Array:
    """[count, parts]: exact factors of an extent, the outermost first."""
    if chances.by_primes:
        return _by_primes(extent, parts, count, rng, chances.innermost)
    tuples = _tuples(extent, parts - 1, chances.innermost)
    inner = np.array(tuples, np.int64).reshape(len(tuples), parts - 1)[rng.integers(0, len(tuples), count)]
    return np.concatenate([extent // inner.prod(axis=1, keepdims=True), inner], axis=1)


@functools.lru_cache(maxsize=1 << 10)
def _tuples(extent: int, parts: int, innermost: int) -> tuple[tuple[int, ...], ...]:
    return tuple(t for t in divisor_tuples(extent, parts) if not t or t[-1] <= innermost)


def _by_primes(extent: int, parts: int, count: int, rng: np.random.Generator, innermost: int) -> Array:
    """Each prime's exponent is shared among the parts, every way to do so as likely; again where the last part is too large."""
    found = np.ones((count, parts), np.int64)
    todo = np.arange(count)
    while len(todo):
        drawn = np.ones((len(todo), parts), np.int64)
        for prime, exponent in _prime_powers(extent):
            bars = np.argsort(rng.random((len(todo), exponent + parts - 1)), axis=1)[:, : parts - 1]  # stars and bars
            edges = np.sort(bars, axis=1)
            ends = np.concatenate([np.full((len(todo), 1), -1), edges, np.full((len(todo), 1), exponent + parts - 1)], axis=1)
            drawn *= prime ** (np.diff(ends, axis=1) - 1)
        found[todo] = drawn
        todo = todo[drawn[:, -1] > innermost] if parts > 1 else todo[:0]
    return found


def _prime_powers(n: int) -> list[tuple[int, int]]:
    found = []
    p = 2
    while p * p <= n:
        exponent = 0
        while n % p == 0:
            n //= p
            exponent += 1
        if exponent:
            found.append((p, exponent))
        p += 1
    return found + ([(n, 1)] if n > 1 else [])


# -- mutation ------------------------------------------------------------------------------------------------------------


def mutate(plan: Plan, matrix: Matrix, rng: np.random.Generator, chances: Chances) -> tuple[Matrix, Array]:
    """The rows with one change each, and which of them are other rows now: a move may find nothing to change."""
    rows = matrix.astype(np.int32, copy=True)
    moves = _moves(plan, chances)
    if not moves or not len(rows):
        return rows, np.zeros(len(rows), bool)
    likely = np.array([weight for weight, _ in moves])
    chosen = rng.choice(len(moves), len(rows), p=likely / likely.sum())
    for number, (_, move) in enumerate(moves):
        here = np.flatnonzero(chosen == number)
        if len(here):
            move(rows, here, rng)
    rows = repair(plan, rows)
    return rows, (rows != matrix).any(axis=1)


_Move = Callable[[Matrix, Array, np.random.Generator], None]


def _moves(plan: Plan, chances: Chances) -> list[tuple[float, _Move]]:
    """What can be changed in rows of a plan, and how likely that is."""
    numbers = list(enumerate(plan.columns[: plan.numbers]))
    sizes = np.array([n for n, c in numbers if c.loop is not None and c.high > 1], np.int64)
    unrolled = [n for n, c in numbers if c.kind == "unroll"]
    shared = [n for n, c in numbers if c.kind == "parallel" and c.high > 0]
    places = [n for n, c in enumerate(plan.choices, plan.numbers) if len(c.options) > 1] if chances.move_stages else []
    found: list[tuple[float, _Move]] = []
    if len(sizes):
        found.append((chances.size, functools.partial(_move_factor, plan, sizes, chances.innermost)))
    if unrolled:
        found.append((chances.unroll, functools.partial(_redraw_pragma, plan, unrolled, chances.pragma)))
    if places:
        options = functools.partial(_redraw, places, lambda n, count, rng: rng.integers(0, plan.columns[n].high + 1, count))
        found.append((chances.location, options))
    if shared:
        loops = functools.partial(_redraw, shared, lambda n, count, rng: rng.integers(1, plan.columns[n].high + 1, count))
        found.append((chances.parallel, loops))
    return [(weight, move) for weight, move in found if weight > 0]


def _move_factor(plan: Plan, sizes: Array, innermost: int, rows: Matrix, here: Array, rng: np.random.Generator) -> None:
    """A factor goes from one part of an axis to another, unless the innermost part would get too large."""
    columns = sizes[rng.integers(0, len(sizes), len(here))]
    before = rows[here].copy()
    exchange(plan, rows, here, columns, rng)
    last = [n for n in sizes.tolist() if _is_last(plan, n)]
    large = (rows[np.ix_(here, np.array(last))] > np.maximum(innermost, before[:, last])).any(axis=1)
    rows[here[large]] = before[large]


def _is_last(plan: Plan, column: int) -> bool:
    c = plan.columns[column]
    return c.loop is not None and c.loop.part == plan.sketch.nest(c.stage).parts[c.loop.axis] - 1


def _redraw_pragma(
    plan: Plan, columns: list[int], pragma: tuple[int, ...], rows: Matrix, here: Array, rng: np.random.Generator
) -> None:
    """The pragma of one reduction of each row gets a random value, which may be the old one (`MutateAutoUnroll`)."""
    for column, part in zip(columns, dealt(here, len(columns), rng)):
        _draw_pragma(plan, pragma, column, rows, part, rng)


def _draw_pragma(plan: Plan, pragma: tuple[int, ...], column: int, rows: Matrix, here: Array, rng: np.random.Generator) -> None:
    """Steps of a reduction in a row, under a random value of TVM's `auto_unroll_max_step`."""
    stage = plan.columns[column].stage
    loops, stores = reduction_steps(plan, stage, plan.geometry.measure(rows[here]))
    steps = steps_under_pragma(loops, stores, rng.choice(np.array(pragma), len(here)))
    rows[here, column] = np.clip(steps, plan.low[column], plan.high[column])


def _redraw(
    columns: list[int],
    values: Callable[[int, int, np.random.Generator], Array],
    rows: Matrix,
    here: Array,
    rng: np.random.Generator,
) -> None:
    for column, part in zip(columns, dealt(here, len(columns), rng)):
        rows[part, column] = values(column, len(part), rng)
