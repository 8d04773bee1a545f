"""Tiles whose lanes run along the reduction: few results for each row."""

from __future__ import annotations

import pytest
from tests.backends.cpu.codegen.test_folding import transposed

import tensorsmith as ts
from tensorsmith.backends.cpu.default_tile import TilePlan
from tensorsmith.space.sketch.loops import NestLoop


def plan(image: int, channels: int, results: int, target: str) -> TilePlan:
    workload = transposed(image, channels, results)
    (stage,) = [s for s in workload.stages if s.reduction]
    return TilePlan(workload, stage, ts.Target.named(target))


@pytest.mark.parametrize("target, results", [("znver3", 1), ("znver4", 1), ("znver4", 2), ("znver4", 3), ("skylake-avx512", 3)])
def test_results_of_a_tile_are_neighbours_in_memory(target: str, results: int) -> None:
    """Both phases of a row and all channels, inside the pixels; and they make whole vectors."""
    tile = plan(320, 32, results, target)
    loops = [n.axis for n in tile.loops()[1]]
    assert tile.across and tile.beside == {"wr": 2} and tile.vectors == results
    assert loops.index("wq") < loops.index("wr") < loops.index("co")
    assert tile.rows * 2 * results % 8 == 0


def test_few_registers_have_room_for_one_phase() -> None:
    """Three channels in both phases would leave room for one pixel, and the multiply-adds waiting for each other."""
    tile = plan(320, 128, 3, "znver3")
    assert tile.across and not tile.beside and tile.vectors == 3 and tile.rows >= 3


@pytest.mark.parametrize(
    ("target", "channels", "lanes"),
    [
        ("znver4", 24, 8),  # three halves, where a whole one and one that is half empty take as long as four
        ("znver4", 32, 16),
        ("znver4", 28, 16),
        ("znver4", 40, 8),
        ("skylake-avx512", 24, 16),  # half of a vector takes as long as all of it
        ("znver3", 24, 8),
    ],
)
def test_half_vectors_where_whole_ones_would_be_half_empty(target: str, channels: int, lanes: int) -> None:
    sizes = plan(32, channels, 1, target).loops()[2]
    assert sizes[NestLoop("ci", 1)] == lanes


def test_many_columns_are_not_all_on_a_tile() -> None:
    """Seven channels and two phases are more results for a row than a tile has room for: channels alone."""
    tile = plan(32, 512, 7, "znver4")
    assert tile.across and not tile.beside and tile.rows * tile.vectors <= 31


@pytest.mark.parametrize(
    ("target", "channels", "results", "across"),
    [
        ("znver4", 48, 8, False),  # half of a vector costs half
        ("skylake-avx512", 24, 8, False),  # 24 multiply-adds; 16, and 8 vectors to fold
        ("skylake-avx512", 48, 8, True),
        ("znver4", 48, 12, False),
        ("znver4", 24, 1, True),
        ("znver3", 24, 4, True),
        ("znver3", 24, 7, False),
    ],
)
def test_lanes_run_along_what_takes_fewer_cycles(target: str, channels: int, results: int, across: bool) -> None:
    assert plan(32, channels, results, target).across == across
