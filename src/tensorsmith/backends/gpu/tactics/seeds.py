"""Seeds: blocks that are usual for a product of matrices, by the number of threads and results of each thread."""

from __future__ import annotations

import numpy as np

from tensorsmith.backends.gpu.simt.blocks import WIDTHS
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

#: the same where matrix instructions compute: (warps, tiles of a warp, steps of these instructions in a round)
_MATRIX_BLOCKS = (
    (8, 32, 2), (4, 32, 2), (8, 16, 2), (4, 16, 2), (4, 16, 4), (4, 8, 4), (2, 8, 4), (4, 4, 4), (2, 2, 4), (1, 2, 4), (1, 1, 4),
)  # fmt: skip
_GAP = 8  # elements of two bytes: rows begin four banks apart, and where sixteen bytes can be moved


def seed_rows(plan: Plan, starts: Matrix) -> Matrix:
    """Each of the usual blocks in every variant of the structure."""
    if any(root.by_matrix for root in roots(plan)):
        return _matrix_rows(plan, starts)
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


def _matrix_rows(plan: Plan, starts: Matrix) -> Matrix:
    """With one place for each tile, and with two and gaps between rows."""
    found = []
    for warps, tiles, steps in _MATRIX_BLOCKS:
        for ahead in (False, True):
            rows = starts.copy()
            for root in roots(plan):
                share(plan, root.nest, root.open_loops(THREAD), rows, warps)
                share(plan, root.nest, root.open_loops(VTHREAD), rows, tiles)
                for nest in root.private:
                    open_ = [loop for loop in nest.loops.all if loop.part and loop not in nest.loops.sizes]
                    share(plan, nest, open_, rows, steps)
                    if ahead:
                        rows[:, plan.names[f"{nest.stage}.buffers"]] = 2
                for nest in root.shared:
                    for hole, value in ((f"{nest.stage}.{nest.vector}", max(WIDTHS)), (f"{nest.stage}.pad", _GAP if ahead else 0)):
                        if hole in plan.names:
                            rows[:, plan.names[hole]] = value
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
