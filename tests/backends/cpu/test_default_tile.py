"""Register tiles of the default schedule leave registers for what the machine has to load."""

from __future__ import annotations

import pytest

import tensorsmith as ts
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.default_tile import TilePlan, register_tiles
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.ops import catalogue


def plan(case: str, target: str) -> TilePlan:
    workload = catalogue.get(case).workload()
    (stage,) = [s for s in workload.stages if s.reduction]
    return TilePlan(workload, stage, ts.Target.named(target))


@pytest.mark.parametrize("vectors", [4, 8])
def test_points_with_vectors_of_their_own_have_room_for_eight_of_them(vectors: int) -> None:
    target = ts.Target.named("neoverse-n1")
    assert isinstance(target, CpuTarget)
    rows, width = register_tiles(112, vectors, target, in_lanes=True)[0][1]
    assert rows * width > 8 and (rows + 1) * width + 8 <= 32


def test_rows_with_one_factor_have_room_for_three() -> None:
    tile = plan("GMM-3-b1", "neoverse-n1")
    assert (tile.rows + 1) * tile.vectors + 8 > 32 >= (tile.rows + 1) * tile.vectors + 3


@pytest.mark.parametrize("target, rows", [("cortex-a53", 8), ("cortex-a55", 9)])
def test_in_order_tiles_have_room_for_the_operands_of_the_next_steps(target: str, rows: int) -> None:
    tile = plan("GMM-3-b1", target)
    assert (tile.rows, tile.vectors) == (rows, 2) and tile.unroll() == 8


@pytest.mark.parametrize("case, rows", [("DEP-1-b16", 4), ("DEP-2-b16", 2), ("GRP-2-b16", 4)])
def test_images_from_memory_are_read_along_several_of_their_rows(case: str, rows: int) -> None:
    """DEP-2's rows take 28 KiB: the same pixel of each falls into one set of eight ways, and two steps read five of them."""
    found = default_candidate(catalogue.get(case).workload(), ts.Target.named("znver4"))
    (nest,) = found.sketch.nests
    assert found.decisions[f"{nest.stage}.h.1"] == rows
    assert [n.axis for n in nest.outer] == [a.name for a in found.sketch.rewritten.stage(nest.stage).axes]


@pytest.mark.parametrize("case", ["DEP-4-b16", "GRP-1-b16", "C2D-3-b16"])
def test_what_stays_in_a_cache_or_is_computed_on_for_long_is_tiled_along_the_last_axis(case: str) -> None:
    tile = plan(case, "znver4")
    assert not tile.streams and tile.row_axis is not None and tile.row_axis.name == "w"


def test_in_order_cores_follow_few_pieces_of_memory() -> None:
    assert not plan("DEP-1-b16", "cortex-a53").streams
