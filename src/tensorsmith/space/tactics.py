"""What a kind of machine tells the space: how many threads and lanes there are, what can be built, and what is worth a try.

This one knows nothing of a machine; each backend has its own, `backends/cpu/tactics/`. It belongs to a target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.lang.workload import Workload
from tensorsmith.space.holes.kind import Column, Matrix, Move
from tensorsmith.space.holes.size import block_sizes
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.sketch import Candidate

if TYPE_CHECKING:
    from tensorsmith.space.population.population import Plan


class Tactics:
    """Decisions of a search that depend on the machine; any rows will do, but better ones are found sooner."""

    local_bytes: int = 4 << 20  # that one attached stage may take, for each thread: more than any cache of a thread's own
    work_to_share: int = 0  # points of a stage below which starting the other threads seldom pays
    copies: int = 1  # steps of a reduction in a row that are a good start
    vectors: int = 4  # most of a loop in lanes whose size is drawn anew by a mutation

    @property
    def threads(self) -> int:
        """That share the loops of a nest."""
        return 1

    def lanes(self, element_bytes: int) -> int:
        """Elements of a vector."""
        return 1

    def default_candidate(self, workload: Workload) -> Candidate:
        """A decent candidate without a search."""
        return plain_candidate(workload)

    def draw_sizes(self, plan: Plan, rows: Matrix, rng: np.random.Generator) -> None:
        """Fills the sizes of all tiles at random."""
        for n, c in enumerate(plan.columns):
            if c.loop is not None:
                rows[:, n] = block_sizes(np.full(len(rows), c.high), rng)

    def start_size(self, plan: Plan, column: Column) -> int:
        """The size of a tile that a seed begins with."""
        return column.idle

    def moves(self, plan: Plan) -> list[Move]:
        """Mutations besides those of the kinds of holes."""
        return []

    def shrink(self, plan: Plan, rows: Matrix) -> None:
        """Makes smaller what is too large to be built."""
        return

    def seed_rows(self, plan: Plan, starts: Matrix) -> Matrix:
        """Rows of a sketch that the machine's facts alone call for, the same every time; they are repaired afterwards.

        `starts` has a row for each variant of the structure that seeds go through, every hole at the value its kind begins with.
        """
        return starts
