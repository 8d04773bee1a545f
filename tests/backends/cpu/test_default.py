"""The default schedule of stages that are nested row by row: who computes what, where, and how many at a time."""

from __future__ import annotations

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.default_tile import TilePlan
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.build import build
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue, conv, elementwise, norm, pool, reduce
from tensorsmith.space.sketch.loops import AttachPoint
from tensorsmith.space.sketch.sketch import Candidate

MACHINE = ts.Target.named("znver4", cores=2)


def found(*tensors: ts.Tensor) -> Candidate:
    """The default schedule of a workload: a point of its space, and right."""
    workload = ts.workload(list(tensors))
    candidate = default_candidate(workload, MACHINE)
    assert space_of(workload, MACHINE).find(candidate) is not None
    inputs, (output,) = random_inputs(workload, 1), workload.outputs
    want = evaluate(workload, inputs, precise=True)[output]
    here = default_candidate(workload, ts.Target.native())
    np.testing.assert_allclose(build(here).run(inputs)[output], want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
    return candidate


def place(candidate: Candidate, stage: str) -> AttachPoint | None:
    return candidate.sketch.nest(stage).at


def pooled_mean(n: int, size: int, channels: int) -> Candidate:
    x = ts.placeholder((n, size, size, channels), name="x")
    small = pool.avg_pool(x, 3, stride=2, padding=1, name="small")
    return found(x, reduce.mean(small, (1, 2), name="mean"))


def test_work_that_is_computed_inside_counts_for_the_threads() -> None:
    """128 results, but 16 times 13 * 13 * 9 operations for each of them."""
    assert pooled_mean(8, 26, 16).decisions["mean.parallel"] == 1


def test_little_work_is_done_by_one_thread() -> None:
    assert pooled_mean(2, 6, 16).decisions["mean.parallel"] == 0


def test_loops_inside_which_others_are_computed_for_all_of_them_are_not_shared() -> None:
    candidate = pooled_mean(8, 32, 512)
    point = place(candidate, "mean_sum")
    assert point is not None and candidate.decisions["mean.parallel"] <= point.depth == 1


def test_one_thread_does_not_do_all_of_it_where_the_loops_around_run_once() -> None:
    candidate = pooled_mean(1, 32, 512)
    assert place(candidate, "mean_sum") is None and candidate.decisions["mean_sum.parallel"] > 0


def test_exponentials_count_more_than_additions() -> None:
    x = ts.placeholder((100, 50), name="x")
    assert found(x, elementwise.sigmoid(x)).decisions["sigmoid.parallel"] > 0
    assert found(x, elementwise.relu(x)).decisions["relu.parallel"] == 0


@pytest.mark.parametrize(
    "shape, depth",
    [
        ((8, 28, 40), 1),  # three vectors are a row: 28 rows at a time
        ((8, 28, 400), 2),  # long rows keep the machine busy
        ((8, 2000, 40), 2),  # so many rows would leave the first cache
        ((1, 28, 40), 2),  # threads need something to share
        ((28, 40), 1),  # there is no loop around the rows
    ],
)
def test_short_rows_are_computed_several_at_a_time(shape: tuple[int, ...], depth: int) -> None:
    x = ts.placeholder(shape, name="x")
    candidate = found(x, norm.softmax(x))
    for stage in ("softmax_max", "softmax_exp", "softmax_sum"):
        assert place(candidate, stage) == AttachPoint("softmax", depth)


def test_what_is_only_read_element_by_element_waits_for_nothing() -> None:
    x = ts.placeholder((8, 32, 32, 48), name="x")
    small = pool.avg_pool(x, 3, stride=2, padding=1, name="small")
    assert place(found(x, elementwise.gelu(small, name="y")), "small_sum") == AttachPoint("y", 3)


@pytest.mark.parametrize("channels, steps", [(16, 9), (32, 5), (64, 3), (8, 9)])
def test_few_sums_are_added_to_several_at_a_time(channels: int, steps: int) -> None:
    x = ts.placeholder((1, 32, 32, channels), name="x")
    assert found(x, pool.max_pool(x, 3, stride=2, padding=1, name="y")).decisions["y.unroll"] == steps


# -- register tiles --------------------------------------------------------------------------------------------------


def plan(workload: Workload, target: str = "znver4") -> TilePlan:
    (stage,) = [s for s in workload.stages if s.reduction]
    machine = ts.Target.named(target, cores=2)
    assert isinstance(machine, CpuTarget)
    return TilePlan(workload, stage, machine)


def convolution(shape: tuple[int, ...], weight: tuple[int, ...], groups: int = 1, padding: int = 0) -> Workload:
    x = ts.placeholder(shape, name="x")
    w = ts.placeholder(weight, name="w", constant=True)
    return ts.workload([x, w, conv.conv(x, w, 1, padding, 1, groups, "y")])


def test_lanes_run_along_the_reduction_where_results_of_groups_lie_apart() -> None:
    """One result for each of four groups: lanes along the groups would gather numbers that lie eight apart."""
    tile = plan(convolution((16, 64, 64, 32), (3, 3, 8, 4), groups=4, padding=1))
    assert tile.across and tile.vector_axis.name == "ci"


def test_rows_of_a_tile_are_not_its_columns() -> None:
    """Twelve results for each pixel, lanes along the reduction: several pixels share a tile."""
    tile = plan(convolution((2, 10, 10, 384), (7, 7, 384, 12), padding=3))
    assert tile.across and tile.row_axis is not None and tile.row_axis.name == "w" and tile.rows > 1 and tile.vectors > 1


def test_images_are_not_streamed_where_sums_would_wait_for_each_other() -> None:
    """Eight results for each pixel are half a vector: four rows of them are half of the sums that the units need."""
    assert not plan(convolution((8, 40, 40, 320), (1, 1, 320, 8))).streams
    assert plan(catalogue.get("GRP-2-b16").workload()).streams


def capsule() -> Workload:
    x, w = ts.placeholder((4, 16, 8, 4, 4, 32), name="x"), ts.placeholder((3, 3, 4, 4, 32, 8), name="w", constant=True)
    return ts.workload([x, w, conv.capsule_conv2d(x, w, padding=1, name="y")])


def test_where_a_tile_has_few_sums_a_second_axis_joins() -> None:
    assert plan(capsule()).beside == {"q": 4}
    assert not plan(convolution((1, 28, 28, 64), (3, 3, 64, 64), padding=1)).beside  # there are enough


def test_an_exponential_of_each_result_has_no_lanes_on_a_tile_along_the_reduction() -> None:
    shape, weight = (1, 40, 40, 64), (1, 1, 64, 4)
    x, w = ts.placeholder(shape, name="x"), ts.placeholder(weight, name="w", constant=True)
    y = conv.conv(x, w, name="y")
    assert plan(ts.workload([x, w, elementwise.relu(y)])).across
    assert not plan(ts.workload([x, w, elementwise.gelu(y)])).across
