"""Depthwise convolutions load a value once for all results and taps of a tile that use it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import conv
from tensorsmith.space.sketch.sketch import Candidate


def depthwise(*shape: int, kernel: int = 3, stride: int = 1, dilation: int = 1) -> list[ts.Tensor]:
    n, h, w, c = shape
    x = ts.placeholder((n, h, w, c), name="x")
    weight = ts.placeholder((kernel, kernel, c), name="weight", constant=True)
    return [x, weight, conv.depthwise_conv2d(x, weight, stride=stride, padding=dilation * (kernel - 1) // 2, dilation=dilation)]


def found(tensors: list[ts.Tensor], target: str = "znver4") -> Candidate:
    return default_candidate(ts.workload(tensors), ts.Target.named(target))


def sizes(candidate: Candidate) -> tuple[int, int]:
    (nest,) = candidate.sketch.nests
    return candidate.decisions.get(f"{nest.stage}.h.1", 1), candidate.decisions.get(f"{nest.stage}.w.1", 1)


def has_all_taps_written_out(candidate: Candidate) -> bool:
    (nest,) = candidate.sketch.nests
    return {"kh", "kw"} <= {loop.axis for loop in nest.unrolled}


def test_a_tile_has_results_of_two_rows_and_all_taps_are_written_out() -> None:
    candidate = found(depthwise(1, 28, 28, 192))
    assert sizes(candidate) == (2, 4) and has_all_taps_written_out(candidate)


def test_a_value_is_loaded_once_for_all_that_use_it() -> None:
    """Without padding: a tile of 2 x 4 results reads a window of 4 x 6 pixels and 9 weights, which its 9 taps use 72 times each."""
    x = ts.placeholder((1, 10, 10, 16), name="x")
    weight = ts.placeholder((3, 3, 16), name="weight", constant=True)
    text = ts.compile([x, weight, conv.depthwise_conv2d(x, weight)], target="znver4").assembly
    assert len(re.findall(r"vfmadd", text)) == 72
    assert len(re.findall(r"v(?:movups|fmadd\w+)\s+\S*\(", text)) == 24 + 9


@pytest.mark.parametrize("channels", [512, 1024])
def test_no_such_tile_where_its_window_falls_into_one_set_of_the_first_cache(channels: int) -> None:
    assert not has_all_taps_written_out(found(depthwise(1, 14, 14, channels)))


@pytest.mark.parametrize("case", ["too many taps", "too small an image"])
def test_no_such_tile(case: str) -> None:
    tensors = {
        "too many taps": depthwise(1, 28, 28, 48, kernel=7),
        "too small an image": depthwise(1, 3, 3, 48),
    }[case]
    assert not has_all_taps_written_out(found(tensors))


@pytest.mark.parametrize(
    "target, kernel, rows", [("znver4", 7, 13), ("znver4", 5, 13), ("znver4", 11, 9), ("znver3", 7, 5), ("znver3", 5, 6)]
)
def test_of_a_large_window_a_row_of_taps_is_written_out(target: str, kernel: int, rows: int) -> None:
    """A row of results beside the values that all taps of a row read: both fill the registers."""
    machine = ts.Target.named(target)
    candidate = found(depthwise(1, 26, 26, 64, kernel=kernel), target)
    (nest,) = candidate.sketch.nests
    assert sizes(candidate) == (1, rows) and candidate.decisions[f"{nest.stage}.c.1"] == machine.lanes()
    assert {loop.axis for loop in nest.unrolled} - {"w"} == {"kw"}
    for size, padding in ((26, kernel // 2), (80, kernel // 2), (32, 0)):
        x, w = ts.placeholder((1, size, size, 64), name="x"), ts.placeholder((kernel, kernel, 64), name="w", constant=True)
        workload = ts.workload([x, w, conv.depthwise_conv2d(x, w, padding=padding)])
        assert space_of(workload, machine).find(default_candidate(workload, machine)) is not None


def test_no_row_of_taps_where_neighbours_share_no_values_or_most_taps_are_on_padding() -> None:
    assert has_all_taps_written_out(found(depthwise(1, 26, 26, 64, kernel=5, stride=2)))
    assert has_all_taps_written_out(found(depthwise(1, 3, 26, 64, kernel=5)))


@pytest.mark.parametrize("target", ["cortex-a53", "neoverse-n1", "x86-64-v2"])
def test_no_such_tile_where_values_are_multiplied_in_registers_alone(target: str) -> None:
    """All taps at once would want more registers than there are."""
    assert not has_all_taps_written_out(found(depthwise(1, 28, 28, 192), target))


@pytest.mark.parametrize("shape", [(1, 4, 4, 16), (2, 9, 7, 17), (1, 13, 17, 33)])
@pytest.mark.parametrize("kernel, stride, dilation", [(3, 1, 1), (3, 2, 1), (5, 1, 1), (3, 1, 2), (2, 1, 1), (7, 1, 1)])
def test_right_answers(shape: tuple[int, ...], kernel: int, stride: int, dilation: int) -> None:
    tensors = depthwise(*shape, kernel=kernel, stride=stride, dilation=dilation)
    workload = ts.workload(tensors)
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.standard_normal(b.shape).astype(np.float32) for b in workload.inputs}
    want = evaluate(workload, inputs)[workload.outputs[0]]
    candidate = default_candidate(workload, ts.Target.native())
    np.testing.assert_allclose(build(candidate)(*inputs.values()), want, rtol=1e-4, atol=1e-5)
