"""Sizes of blocks, drawn at random: what is worth a try on a GPU.

Threads come in powers of two that make up a few warps, the results of a thread are a small tile, virtual threads few, and a round
of fetching brings a few steps of the reduction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.gpu.tactics.roots import roots
from tensorsmith.space.holes.kind import Array, Matrix
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import THREAD, VTHREAD, NestLoop
from tensorsmith.space.sketch.nest import Nest


@dataclass(frozen=True)
class Draws:
    """What is drawn."""

    threads: tuple[int, ...] = (32, 64, 128, 128, 256, 256, 512)  # of a block
    results: tuple[int, ...] = (1, 2, 4, 8, 16, 16, 32, 32, 64)  # of a thread, virtual threads left out
    virtual: tuple[int, ...] = (1, 1, 2, 2, 4, 8)
    steps: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # of a reduction in a round
    widths: tuple[int, ...] = (1, 2, 4, 4)
    odd: float = 0.1  # how often a size is no power of two: for extents that are none


DRAWS = Draws()


def draw_sizes(plan: Plan, rows: Matrix, rng: np.random.Generator, draws: Draws = DRAWS) -> None:
    """Fills the sizes of all blocks."""
    for n, c in enumerate(plan.columns):
        if c.loop is not None:
            rows[:, n] = 1
    for root in roots(plan):
        _share(plan, root.nest, root.loops(THREAD), rows, rng.choice(draws.threads, len(rows)), rng)
        _share(plan, root.nest, root.loops(VTHREAD), rows, rng.choice(draws.virtual, len(rows)), rng)
        tile = [loop for loop in root.nest.tile if loop not in root.nest.loops.bindings and loop.part]
        _share(plan, root.nest, tile, rows, rng.choice(draws.results, len(rows)), rng)
        for nest in root.private:
            _draw_private(plan, nest, rows, rng, draws)
        for nest in root.shared:
            if nest.vector is not None:
                rows[:, plan.names[f"{nest.stage}.{nest.vector}"]] = rng.choice(draws.widths, len(rows))
    sizes = [n for n, c in enumerate(plan.columns) if c.loop is not None and not c.vector]
    for n in sizes:
        odd = rng.random(len(rows)) < draws.odd
        rows[odd, n] = np.maximum(1, rows[odd, n] + rng.integers(-1, 2, odd.sum()))


def _draw_private(plan: Plan, nest: Nest, rows: Matrix, rng: np.random.Generator, draws: Draws) -> None:
    reduce = {a.name for a in plan.geometry.stages[nest.stage].reduce_axes}
    inner = [loop for loop in nest.tile if loop.part and loop.axis not in reduce]
    _share(plan, nest, inner, rows, rng.choice(draws.results, len(rows)), rng)
    for part in (1, 2):
        parts = [loop for loop in nest.loops.all if loop.axis in reduce and loop.part == part]
        _share(plan, nest, parts, rows, rng.choice(draws.steps, len(rows)), rng)


def _share(plan: Plan, nest: Nest, loops: list[NestLoop], rows: Matrix, wanted: Array, rng: np.random.Generator) -> None:
    """Sizes of loops whose product is what is wanted, or less: factors of two dealt out at random, as far as axes go."""
    if not loops:
        return
    columns = np.array([plan.names[f"{nest.stage}.{loop}"] for loop in loops])
    most = np.array([plan.geometry.most(nest.stage, loop.axis) for loop in loops])
    sizes = np.ones((len(rows), len(loops)), np.int64)
    left = np.asarray(wanted).copy()
    while (left > 1).any():
        open_ = sizes < most
        weights = open_ * rng.random(sizes.shape)
        chosen = weights.argmax(axis=1)
        here = (left > 1) & open_.any(axis=1)
        if not here.any():
            break
        lines = np.flatnonzero(here)
        sizes[lines, chosen[here]] = np.minimum(sizes[lines, chosen[here]] * 2, most[chosen[here]])
        left = np.where(here, left // 2, 1)
    rows[:, columns] = sizes
