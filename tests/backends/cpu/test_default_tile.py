"""Register tiles of the default schedule leave registers for what the machine has to load."""

from __future__ import annotations

import pytest

import tensorsmith as ts
from tensorsmith.backends.cpu.default_tile import TilePlan
from tensorsmith.backends.cpu.in_order import copies
from tensorsmith.ops import catalogue


def plan(case: str, target: str) -> TilePlan:
    workload = catalogue.get(case).workload()
    (stage,) = [s for s in workload.stages if s.reduction]
    return TilePlan(workload, stage, ts.Target.named(target))


@pytest.mark.parametrize("case", ["DEP-1-b1", "DEP-2-b1"])
def test_points_with_vectors_of_their_own_have_room_for_those_of_two_taps(case: str) -> None:
    """And are enough to keep both units of this core busy; in few vectors, whose weights are loaded once for all rows."""
    tile = plan(case, "neoverse-n1")
    assert 8 <= tile.rows * tile.vectors and 3 * tile.rows * tile.vectors + tile.vectors <= 32 and tile.vectors == 1


def test_rows_with_one_factor_have_room_for_three() -> None:
    tile = plan("GMM-3-b1", "neoverse-n1")
    assert (tile.rows + 1) * tile.vectors + 8 > 32 >= (tile.rows + 1) * tile.vectors + 3


@pytest.mark.parametrize("target, rows", [("cortex-a53", 8), ("cortex-a55", 9)])
def test_in_order_tiles_have_room_for_the_operands_of_the_next_steps(target: str, rows: int) -> None:
    tile = plan("GMM-3-b1", target)
    assert (tile.rows, tile.vectors) == (rows, 2) and tile.unroll() == 8


@pytest.mark.parametrize(
    ("extents", "steps"),
    [
        ([512], 8),
        ([3, 3, 512], 8),
        ([7, 7, 3], 21),
        ([3, 3, 4], 12),
        ([5], 5),
        ([2, 3], 6),
        ([3, 2, 2, 2], 8),
        ([9, 40], 8),
        ([0], 1),
    ],
)
def test_short_loops_are_written_whole(extents: list[int], steps: int) -> None:
    """As many as eight steps or more come to, and not over 32; else eight of the innermost ones."""
    assert copies(extents) == steps
