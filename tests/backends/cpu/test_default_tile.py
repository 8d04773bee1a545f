"""Register tiles of the default schedule leave registers for what the machine has to load."""

from __future__ import annotations

import pytest
from tests.rewrites.test_formulations import conv_layer

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.default_tile import TilePlan
from tensorsmith.backends.cpu.in_order import copies
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.rewrites.formulations import formulations


def plan(case: str, target: str) -> TilePlan:
    workload = catalogue.get(case).workload()
    (stage,) = [s for s in workload.stages if s.reduction]
    return TilePlan(workload, stage, ts.Target.named(target))


@pytest.mark.parametrize("case", ["DEP-1-b1", "DEP-2-b1"])
def test_points_with_vectors_of_their_own_have_room_for_those_of_two_taps(case: str) -> None:
    """And are enough to keep both units of this core busy; in few vectors, whose weights are loaded once for all rows."""
    tile = plan(case, "neoverse-n1")
    assert tile.rows * tile.vectors >= 8 and 3 * tile.rows * tile.vectors + tile.vectors <= 32 and tile.vectors == 1


def test_rows_with_one_factor_have_room_for_three() -> None:
    tile = plan("GMM-3-b1", "neoverse-n1")
    assert (tile.rows + 1) * tile.vectors + 8 > 32 >= (tile.rows + 1) * tile.vectors + 3


@pytest.mark.parametrize("target, rows", [("cortex-a53", 8), ("cortex-a55", 9)])
def test_in_order_tiles_have_room_for_the_operands_of_the_next_steps(target: str, rows: int) -> None:
    tile = plan("GMM-3-b1", target)
    assert (tile.rows, tile.vectors) == (rows, 2) and tile.unroll() == 8


def winograd(images: int, size: int, channels: int) -> Workload:
    """Square images: a convolution whose last stages are the product and the transform back."""
    return formulations(conv_layer((images, size, size, channels), (3, 3, channels, channels), epilogue=False))[1].workload


@pytest.mark.parametrize(
    ("image", "target", "beside", "tile"),
    [
        (16, "cortex-a53", {"ty": 2}, (4, 2)),
        (32, "cortex-a53", {}, (8, 2)),
        (16, "neoverse-n1", {}, (4, 4)),
        (16, "znver4", {}, (4, 4)),
    ],
)
def test_few_rows_are_joined_by_those_of_another_axis_where_loads_take_time(
    image: int, target: str, beside: dict[str, int], tile: tuple[int, int]
) -> None:
    workload = winograd(1, image, 64)
    (product,) = [s for s in workload.stages if s.reduction]
    found = TilePlan(workload, product, ts.Target.named(target))
    assert (found.beside, (found.rows, found.vectors)) == (beside, tile)


def test_a_slice_has_as_many_rows_as_the_tile() -> None:
    """Two rows of four tiles on the register tile: a slice of one row would leave half of it idle."""
    candidate = default_candidate(winograd(16, 16, 32), ts.Target.named("cortex-a53"))
    nests = {n.stage: n for n in candidate.sketch.nests}
    (product,) = [s.name for s in candidate.sketch.rewritten.stages if s.reduction]
    point = nests[product].at
    assert point is not None and candidate.decisions[f"{product}.ty.1"] == 2 == candidate.decisions[f"{point.stage}.ty.1"]


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


@pytest.mark.parametrize("scaled", [False, True])
def test_rows_that_are_used_once_are_read_along_themselves(scaled: bool) -> None:
    """A matrix times a vector: lanes along the results would gather numbers that lie a row apart."""
    x, v = ts.placeholder((1024, 256), name="x"), ts.placeholder((256,), name="v", constant=True)
    k = ts.reduce_axis(256, name="k")
    result = ts.compute((1024,), lambda i: ts.sum(x[i, k] * v[k] + (v[k] if scaled else 0.0), axis=k), name="y")
    space = space_of(ts.workload([x, v, result]), ts.Target.named("znver4"))
    candidate = default_candidate(space.workload, space.target)
    (nest,) = candidate.sketch.nests
    assert nest.vector is not None and nest.vector.axis == "k"
    assert space.find(candidate) is not None


def test_rows_that_are_used_again_and_again_are_copied_instead() -> None:
    a, b = ts.placeholder((64, 256), name="a"), ts.placeholder((128, 256), name="b")
    k = ts.reduce_axis(256, name="k")
    product = ts.compute((64, 128), lambda i, j: ts.sum(a[i, k] * b[j, k], axis=k), name="c")
    candidate = default_candidate(ts.workload([a, b, product]), ts.Target.named("znver4"))
    assert [n.vector.axis for n in candidate.sketch.nests if n.stage == "c" and n.vector is not None] == ["j"]
