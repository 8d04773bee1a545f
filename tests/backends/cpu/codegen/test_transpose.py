"""Strided reads are turned over in registers: transposes and packed copies of transposed operands."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from tests.random_draws import SOURCES, many

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.compile import compile
from tensorsmith.lang.define import compute, maximum, placeholder, workload
from tensorsmith.ops.common import at, compute_named
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import Target, native


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
    """Images with channels first that become channels last; 56 bytes are three squares of 16, on x86, and one of 8."""
    kernel = compile(transposing((long, 3, short), (1, 2, 0), dtype))
    x = np.arange(long * 3 * short).reshape(long, 3, short).astype(kernel.inputs[0].numpy_dtype)
    assert np.array_equal(kernel(x), x.transpose(1, 2, 0))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_random_transposes(vector_bytes, source):
    """Any number of dimensions, sizes around those of squares, tiles that cut them anywhere, vectors of any machine."""

    @given(SOURCES[source])
    @many(12, repeatable=True)
    def run(rng: Random):
        target = replace(native(), vector_bytes=vector_bytes)
        rank = rng.randint(2, 4)
        shape = tuple(rng.choice([1, 3, 4, 5, 15, 16, 17, 33]) for _ in range(rank))
        order = tuple(rng.sample(range(rank), rank))
        w = transposing(shape, order, rng.choice(["f32", "f64", "u8", "i16", "f16"]))
        by_default = default_candidate(w, target)
        candidates = [by_default, Candidate(by_default.sketch, {h: rng.randint(1, 40) for h in by_default.decisions})]
        for candidate in candidates[: 1 + (math.prod(candidates[1].decisions.values()) < 4000)]:
            kernel = build(candidate, target)
            x = (np.arange(math.prod(shape)) % 251).reshape(shape).astype(kernel.inputs[0].numpy_dtype)
            assert np.array_equal(kernel(x), x.transpose(order))

    run()


@pytest.mark.parametrize(("dtype", "register"), [("u8", "zmm"), ("i16", "zmm"), ("f32", "zmm"), ("f64", "zmm")])
def test_squares_are_not_spilled(dtype, register):
    """Each is stored before the next one is loaded, so that 16 vectors at most are in registers."""
    assembly = compile(transposing((256, 3136), (1, 0), dtype), target="znver4").assembly
    lines = [line for line in assembly.splitlines() if register in line]
    assert len(lines) > 16 and not any("%rsp" in line or "%rbp" in line for line in lines)


def test_bytes_are_interleaved_by_single_instructions():
    """16 bytes of each of 64 rows: 16 vectors, each interleaved in 4 rounds. For another order LLVM needs several instructions, and
    masks from memory."""
    assembly = compile(transposing((64, 64), (1, 0), "u8"), target="znver4").assembly
    assert sum("vpunpcklbw" in line or "vpunpckhbw" in line for line in assembly.splitlines()) == 4 * 16 * 4
    assert not any(name in assembly for name in ("vpermt2", "vpermi2", "vpshufb", "vpermb"))


def test_all_threads_turn_a_long_matrix_over():
    """64 rows are one step: columns are shared, too."""
    program = str(compile(transposing((3136, 64), (1, 0), "u8"), target=replace(native(), vector_bytes=64, cores=2)).program)
    assert len(re.findall("^ *parallel", program, re.M)) == 2


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


def test_rows_of_idle_lanes_are_not_loaded():
    """Six columns of eight, at four of which interleaving works at once: two pieces of six rows."""
    target = Target.named("x86-64-v3")
    loads = [line for line in in_columns(6, "f32", rows=36, target=target).llvm_ir.splitlines() if "load <4 x float>" in line]
    assert len(loads) == 2 * 6


def in_columns(width, dtype, rows=35, target=None):
    """A transpose with lanes along the columns of what it reads, `width` at a time."""
    x = placeholder((rows, 67), dtype, name="x")
    w = workload([x, compute((67, rows), lambda i, j: x[j, i], name="t")])
    sketch = Sketch(w, (Nest("t", "j.0 i.0 | j.1", vector="j.1"),)).check()
    decisions = {"t.j.1": width, "t.parallel": 1, **{h: 1 for h in sketch.holes if "unroll" in h}}
    return build(Candidate(sketch, decisions), target or native())
