"""Strided reads are turned over in registers: transposes and packed copies of transposed operands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorsmith.build import build
from tensorsmith.compile import compile
from tensorsmith.lang.define import compute, maximum, placeholder, workload
from tensorsmith.ops.common import at, compute_named
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native


def transposing(shape, order, dtype="f32", f=lambda e: e):
    x = placeholder(shape, dtype, name="x")
    place = [order.index(d) for d in range(len(order))]
    axes = [f"i{d}" for d in range(len(order))]
    return workload([x, compute_named([shape[d] for d in order], axes, lambda i: f(at(x, *(i[p] for p in place))), "t")])


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i8"])
@pytest.mark.parametrize("shape", [(8, 8), (16, 24), (17, 13), (3, 40), (40, 3), (64, 1), (9, 65)])
def test_transposes_of_all_sizes(shape, dtype):
    x = np.arange(np.prod(shape)).reshape(shape).astype(compile(transposing(shape, (1, 0), dtype)).inputs[0].numpy_dtype)
    assert np.array_equal(compile(transposing(shape, (1, 0), dtype))(x), x.T)


@pytest.mark.parametrize("dtype", ["f32", "f64", "u8", "i16", "bf16"])
@pytest.mark.parametrize("short", [4, 7, 12, 14, 28, 56])
@pytest.mark.parametrize("long", [5, 48, 64, 100])
def test_rows_shorter_than_a_vector_are_turned_over_in_narrower_squares(short, long, dtype):
    """Images with channels first that become channels last; 56 bytes are squares of 32, 16 and 8."""
    kernel = compile(transposing((long, 3, short), (1, 2, 0), dtype))
    x = np.arange(long * 3 * short).reshape(long, 3, short).astype(kernel.inputs[0].numpy_dtype)
    assert np.array_equal(kernel(x), x.transpose(1, 2, 0))


def test_bytes_of_a_short_row_are_not_loaded_one_by_one():
    assert "vpinsrb" not in compile(transposing((256, 3, 56), (1, 2, 0), "u8"), target="znver4").assembly


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_all_orders(order):
    x = np.random.default_rng(0).random((9, 16, 19), np.float32)
    assert np.array_equal(compile(transposing(x.shape, order, f=lambda e: maximum(e, 0.5)))(x), np.maximum(x, 0.5).transpose(order))


@pytest.mark.skipif(native().lanes() < 4, reason="needs vectors")
def test_a_loop_around_the_lanes_goes_in_squares():
    """Lanes along j while the loop around them runs through neighbours: loads are whole vectors."""
    kernel = in_columns(native().lanes(), "f32")
    assert "shufflevector" in kernel.llvm_ir
    a = np.random.default_rng(0).random((35, 67), np.float32)
    assert np.array_equal(kernel(a), a.T)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8"])
@pytest.mark.parametrize("width", [2, 3, 5, 6, 7, 11, 14])
def test_squares_with_idle_lanes(width, dtype):
    """The remainders of 35 by these widths have idle lanes too."""
    kernel = in_columns(width, dtype)
    a = np.random.default_rng(0).integers(-100, 100, (35, 67)).astype(kernel.inputs[0].numpy_dtype)
    assert np.array_equal(kernel(a), a.T)


@pytest.mark.skipif(native().lanes() != 8, reason="counts the loads of vectors of 8 lanes")
def test_rows_of_idle_lanes_are_not_loaded():
    loads = [line for line in in_columns(6, "f32", rows=36).llvm_ir.splitlines() if "load <8 x float>" in line]
    assert len(loads) == 6


def in_columns(width, dtype, rows=35):
    """A transpose with lanes along the columns of what it reads, `width` at a time."""
    x = placeholder((rows, 67), dtype, name="x")
    w = workload([x, compute((67, rows), lambda i, j: x[j, i], name="t")])
    sketch = Sketch(w, (Nest("t", "j.0 i.0 | j.1", vector="j.1"),)).check()
    return build(Candidate(sketch, {"t.j.1": width, "t.parallel": 1, **{h: 1 for h in sketch.holes if "unroll" in h}}))
