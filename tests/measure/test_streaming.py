"""Constants that come from memory."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.lang.define import compute, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as total
from tensorsmith.measure.streaming import places_of, streamed
from tensorsmith.runtime.buffers import ALIGNMENT, data_pointer
from tensorsmith.targets.target import native

TARGET = dataclasses.replace(native(), l2_bytes=1 << 16, l3_bytes=1 << 20)


def product():
    a, b = placeholder((8, 128), name="A"), placeholder((128, 256), name="B", constant=True)
    k = reduce_axis(128, name="k")
    return workload([a, b, compute((8, 256), lambda i, j: total(a[i, k] * b[k, j], axis=k), name="C")])


def test_places_are_apart_aligned_and_larger_than_the_cache_together() -> None:
    constants = {"w": np.zeros((100, 101), np.float32), "v": np.zeros(4099, np.float64)}
    places = places_of(constants, 1 << 16, 1 << 20)
    ranges = sorted((data_pointer(a), data_pointer(a) + a.nbytes) for place in places for a in place.values())
    assert all(start % ALIGNMENT == 0 for start, _ in ranges)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    assert sum(end - start for start, end in ranges) > 1 << 20
    for place in places:
        assert {n: (a.shape, a.dtype) for n, a in place.items()} == {n: (a.shape, a.dtype) for n, a in constants.items()}
        numbers = np.concatenate([np.abs(a).ravel() for a in place.values()])
        assert np.isfinite(numbers).all() and numbers.min() > np.finfo(np.float32).tiny


@pytest.mark.parametrize(
    "constants",
    [{}, {"bias": np.zeros(64, np.float32)}, {"table": np.zeros(1 << 20, np.int64)}],
)
def test_what_is_small_or_no_plain_number_stays_where_it_is(constants) -> None:
    assert places_of(constants, 1 << 20) == []


def test_every_run_reads_another_place_and_the_constants_come_back() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((8, 128), np.float32), rng.random((128, 256), np.float32)
    prepared = build(default_candidate(product(), TARGET), TARGET).bind(B=b).prepare(A=a)
    seen: list[int] = []
    point = prepared.point_constants
    prepared.point_constants = lambda arrays: (seen.extend(map(data_pointer, arrays.values())), point(arrays))[1]  # type: ignore[method-assign]
    assert streamed(prepared, TARGET)(5) > 0
    assert len(set(seen)) == 6 and seen[-1] == data_pointer(prepared.bound["B"])
    prepared.repeat(1)
    np.testing.assert_allclose(prepared.outputs[0], a @ b, rtol=1e-5)


def test_without_constants_runs_are_warm() -> None:
    a = placeholder((64,), name="A")
    prepared = build(default_candidate(workload([a, compute((64,), lambda i: a[i] + 1.0, name="C")]), TARGET), TARGET)
    ready = prepared.prepare(A=np.zeros(64, np.float32))
    assert streamed(ready, TARGET) == ready.seconds
