"""What does not fit: results in memory, sectors that caches lose, tensors that are read again. As properties of products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backends.gpu import products

from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.features.occupancy import beyond
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.prior import estimate, estimated_seconds
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix

V100 = NAMED["v100"]
M = N = K = 2048


def rows(target: GpuTarget = V100, pragma: int | None = None, **sizes: Any) -> Any:
    c = products.candidate(M, N, K, **sizes)
    return extract_rows([(c.sketch, c.decisions)], target, [] if pragma is None else [np.array([pragma])])


def told(name: str, target: GpuTarget = V100, pragma: int | None = None, **sizes: Any) -> float:
    (matrix,) = rows(target, pragma, **sizes).matrices()
    return float(matrix.raw(name)[0, 0])


def seconds(target: GpuTarget = V100, pragma: int | None = None, **sizes: Any) -> float:
    return float(estimated_seconds(rows(target, pragma, **sizes), target)[0])


def test_more_results_than_registers_cost() -> None:
    """64 results of each thread fit; 1024 do not, and each of them is loaded and stored for every step."""
    few: dict[str, Any] = {"thread": (16, 16), "tile": (8, 8), "deep": (8, 1)}
    many = {**few, "tile": (32, 32)}
    assert told("spilled_share", **few) == told("spill_bytes", **few) == 0
    assert told("spilled_share", **many) == 1
    assert told("spill_bytes", **many) == pytest.approx(8 * 1024 * 256 * K, rel=1e-3)
    assert seconds(**many) > 5 * seconds(**few)


def test_large_blocks_have_fewer_registers() -> None:
    """128 results fit where 128 threads share a multiprocessor's registers, not where 1024 do."""
    assert told("spilled_share", thread=(8, 16), tile=(8, 16)) == 0 < told("spilled_share", thread=(32, 32), tile=(8, 16))


def test_results_in_memory_are_moved_once_for_the_innermost_steps() -> None:
    """A tile of 4 x 4 stays in registers for its steps, whatever is around it."""
    one, four = ({"thread": (8, 16), "inner": (8, 8), "tile": (4, 4), "deep": deep} for deep in ((8, 1), (2, 4)))
    assert told("spill_bytes", **one) == pytest.approx(4 * told("spill_bytes", **four), rel=1e-3)


def test_results_are_in_memory_where_loops_around_them_are_not_laid_out() -> None:
    """Of TVM's code: 128 results for four steps are 512 statements."""
    sizes: dict[str, Any] = {"thread": (8, 16), "inner": (4, 4), "tile": (2, 4), "deep": (4, 4)}
    assert told("spilled_share", pragma=512, **sizes) == 0 and told("spilled_share", pragma=16, **sizes) == 1
    assert seconds(pragma=16, **sizes) > 1.5 * seconds(pragma=512, **sizes)
    assert told("spilled_share", **sizes) == 0  # ours is laid out
    inner = {**sizes, "inner": (1, 1), "tile": (8, 16)}
    assert told("spilled_share", pragma=0, **inner) == 0  # compilers lay out inner loops of their own accord


def test_few_lanes_move_whole_sectors() -> None:
    """Results of neighbouring threads lie side by side: one thread alone moves as much as eight."""
    sizes: dict[str, Any] = {"tile": (32, 32), "deep": (8, 1)}
    one, eight = (told("spill_bytes", thread=(1, threads), **sizes) for threads in (1, 8))
    assert one == pytest.approx(eight, rel=1e-3)


def test_fewer_threads_than_a_warp_waste_lanes() -> None:
    sizes: dict[str, Any] = {"tile": (4, 4), "deep": (8, 1)}
    assert seconds(thread=(2, 4), **sizes) > 1.5 * seconds(thread=(8, 16), **sizes)


def test_operands_are_loaded_once_for_all_results_that_are_laid_out() -> None:
    """As long as registers last: eight rows and eight columns for 64 results, whichever loops they are in."""
    tiled, looped = ({"thread": (8, 8), "deep": (8, 1), **tile} for tile in ({"tile": (8, 8)}, {"inner": (8, 8), "tile": (1, 1)}))
    assert told("shared_loads", **looped) <= 4.01 * told("shared_loads", **tiled)  # which takes four neighbours at once
    assert told("shared_loads", pragma=0, **{**looped, "deep": (1, 8)}) > 2 * told("shared_loads", **{**looped, "deep": (1, 8)})


@pytest.mark.parametrize("wanted", [0.0, 50.0, 100.0])
def test_what_fits_is_found_again(wanted: float) -> None:
    assert beyond(100.0, np.array([wanted])) == 0


def test_what_does_not_fit_is_lost() -> None:
    found = beyond(100.0, np.array([101.0, 150.0, 200.0, 1e6]))
    assert (np.diff(found) >= 0).all() and 0 < found[0] < 0.05 and found[2] == found[3] == 1


def test_tensors_are_read_again_where_the_second_cache_is_small() -> None:
    """Never less than they are, and once where they fit."""
    sizes: dict[str, Any] = {"thread": (16, 16), "tile": (4, 4), "deep": (8, 1)}
    large, small = replace(V100, l2_bytes=1 << 30), replace(V100, l2_bytes=1 << 18)
    whole = 4 * (M * K + K * N)
    assert told("read_bytes", large, **sizes) == pytest.approx(whole, rel=1e-3)
    assert told("read_bytes", small, **sizes) > 1.5 * whole
    assert told("far_bytes", large, **sizes) <= told("global_load_sectors", large, **sizes) * 32 * 1.001


def test_sectors_of_which_rounds_use_a_part() -> None:
    """A round takes two of a row's eight elements: the first cache keeps the rest, unless there is no room."""
    sizes: dict[str, Any] = {"thread": (16, 16), "tile": (8, 4), "deep": (2, 1)}
    roomy, tight = replace(V100, first_cache_bytes=1 << 22), replace(V100, first_cache_bytes=1)
    assert told("far_bytes", roomy, **sizes) < 0.7 * told("far_bytes", tight, **sizes)


def test_stores_of_parts_of_sectors() -> None:
    """The second cache puts them together, as long as it holds all that are begun."""
    sizes: dict[str, Any] = {"thread": (32, 2), "inner": (1, 1), "tile": (1, 32), "deep": (8, 1)}
    large, small = replace(V100, l2_bytes=1 << 30), replace(V100, l2_bytes=1 << 16)

    def device(target: GpuTarget) -> float:
        given = rows(target, **sizes)
        matrix = FeatureMatrix(given.values[:, None], ("any",), given.schema)
        return float(estimate(matrix, target).whole["memory"][0, 0])

    assert device(small) > device(large)


def test_limits_of_a_block() -> None:
    """A K80 has twice the registers, but not for one block; its first cache is no part of shared memory."""
    k80 = NAMED["k80"]
    assert k80.registers_of(512) == V100.registers_of(512) == 128
    assert k80.first_cache_room(0) == k80.first_cache_room(90 << 10) == 16 << 10
    assert V100.first_cache_room(96 << 10) == 32 << 10 and V100.first_cache_room(np.array([1 << 20])) == 0
