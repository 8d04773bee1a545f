"""Sizes of blocks, drawn at random: what is worth a try on a GPU.

Threads come in powers of two that make up a few warps, the results of a thread are a small tile, virtual threads few, and a round
of fetching brings a few steps of the reduction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.gpu.tactics.roots import roots
from tensorsmith.lang.dtypes import dtype
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
    widths: tuple[int, ...] = (1, 2, 4, 4)  # elements of four bytes that are fetched at once; twice as many of two
    tiles: tuple[int, ...] = (1, 2, 4, 8, 8, 16, 16, 32)  # of a warp, where matrix instructions compute them
    matrix_steps: tuple[int, ...] = (1, 2, 2, 4)  # of their reduction in a round
    odd: float = 0.1  # how often a size is no power of two: for extents that are none


DRAWS = Draws()


def draw_sizes(plan: Plan, rows: Matrix, rng: np.random.Generator, draws: Draws = DRAWS) -> None:
    """Fills the sizes of all blocks."""
    for n, c in enumerate(plan.columns):
        if c.loop is not None:
            rows[:, n] = c.low
    for root in roots(plan):
        threads = rng.choice(draws.threads, len(rows)) // root.given(THREAD)
        _share(plan, root.nest, root.open_loops(THREAD), rows, threads, rng)
        virtual = rng.choice(draws.tiles if root.by_matrix else draws.virtual, len(rows))
        _share(plan, root.nest, root.open_loops(VTHREAD), rows, virtual, rng)
        fixed = root.nest.loops.bindings.keys() | root.nest.loops.sizes.keys()
        tile = [loop for loop in root.nest.tile if loop not in fixed and loop.part]
        _share(plan, root.nest, tile, rows, rng.choice(draws.results, len(rows)), rng)
        for nest in root.private:
            _draw_private(plan, nest, rows, rng, draws)
        for nest in root.shared:
            if nest.vector is not None:
                more = 2 if dtype(plan.geometry.stages[nest.stage].dtype).bytes <= 2 else 1
                rows[:, plan.names[f"{nest.stage}.{nest.vector}"]] = more * rng.choice(draws.widths, len(rows))
    sizes = [n for n, c in enumerate(plan.columns) if c.loop is not None and not c.vector and c.high > c.low]
    for n in sizes:
        odd = rng.random(len(rows)) < draws.odd
        rows[odd, n] = np.maximum(1, rows[odd, n] + rng.integers(-1, 2, odd.sum()))


def _draw_private(plan: Plan, nest: Nest, rows: Matrix, rng: np.random.Generator, draws: Draws) -> None:
    reduce = {a.name for a in plan.geometry.stages[nest.stage].reduce_axes}
    inner = [loop for loop in nest.tile if loop.part and loop.axis not in reduce]
    _share(plan, nest, inner, rows, rng.choice(draws.results, len(rows)), rng)
    for part in (1, 2):
        parts = [loop for loop in nest.loops.all if loop.axis in reduce and loop.part == part and loop not in nest.loops.sizes]
        wanted = draws.matrix_steps if "matrix" in nest.also else draws.steps
        _share(plan, nest, parts, rows, rng.choice(wanted, len(rows)), rng)


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
