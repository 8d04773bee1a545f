"""Seeds: blocks that are usual for a product of matrices, by the number of threads and results of each thread."""

from __future__ import annotations

import numpy as np

from tensorsmith.backends.gpu.tactics.roots import roots
from tensorsmith.space.holes.kind import Matrix
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import THREAD, VTHREAD, NestLoop
from tensorsmith.space.sketch.nest import Nest

#: (threads, results of a thread, virtual threads, steps in a round)
_BLOCKS = (
    (256, 64, 1, 8), (256, 32, 2, 8), (256, 16, 4, 16), (128, 64, 1, 8), (128, 32, 2, 8), (128, 16, 1, 16), (64, 16, 1, 16),
    (64, 8, 1, 16), (64, 4, 2, 16), (32, 4, 1, 32), (32, 1, 1, 32),
)  # fmt: skip


def seed_rows(plan: Plan, starts: Matrix) -> Matrix:
    """Each of the usual blocks in every variant of the structure."""
    found = []
    for threads, results, virtual, steps in _BLOCKS:
        rows = starts.copy()
        for root in roots(plan):
            share(plan, root.nest, root.loops(THREAD), rows, threads)
            share(plan, root.nest, root.loops(VTHREAD), rows, virtual)
            tile = [loop for loop in root.nest.tile if loop not in root.nest.loops.bindings and loop.part]
            share(plan, root.nest, tile, rows, results)
            for nest in root.private:
                reduce = {a.name for a in plan.geometry.stages[nest.stage].reduce_axes}
                share(plan, nest, [loop for loop in nest.tile if loop.part and loop.axis not in reduce], rows, results)
                share(plan, nest, [loop for loop in nest.loops.all if loop.axis in reduce and loop.part == 2], rows, steps)
            for nest in root.shared:
                if nest.vector is not None:
                    rows[:, plan.names[f"{nest.stage}.{nest.vector}"]] = 4
        found.append(rows)
    return np.concatenate(found)


def share(plan: Plan, nest: Nest, loops: list[NestLoop], rows: Matrix, wanted: int) -> None:
    """Sizes of loops whose product is about what is wanted: doubled in turn, the last first, as far as axes go."""
    sizes = dict.fromkeys(loops, 1)
    left, n = wanted, 0
    while left > 1 and any(sizes[loop] < plan.geometry.most(nest.stage, loop.axis) for loop in loops):
        loop = list(reversed(loops))[n % len(loops)]
        n += 1
        if sizes[loop] < plan.geometry.most(nest.stage, loop.axis):
            sizes[loop] *= 2
            left //= 2
    for loop, size in sizes.items():
        column = plan.names.get(f"{nest.stage}.{loop}")
        if column is not None:
            rows[:, column] = size
