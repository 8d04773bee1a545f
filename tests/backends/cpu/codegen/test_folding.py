"""Lanes along a reduction are added up for several results at once, and the sums are stored as vectors."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest
from hypothesis import given, note
from tests.property.agreement import describe, disagreements
from tests.random_draws import SOURCES, many

import tensorsmith as ts
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.lang.define import compute, placeholder, prod, reduce_axis, sum, workload
from tensorsmith.lang.define import max as largest
from tensorsmith.lang.define import min as smallest
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.transposed import transposed_conv2d
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch

REDUCTIONS = {"sum": sum, "prod": prod, "max": largest, "min": smallest}


def rows_reduced(rows: int, length: int, dtype: str = "f32", op: str = "sum") -> Workload:
    x, k = placeholder((rows, length), dtype, name="x"), reduce_axis(length, "k")
    return workload([x, compute((rows,), lambda i: REDUCTIONS[op](x[i, k], axis=k), name="y")])


def in_lanes(w: Workload, rows: int, lanes: int) -> Candidate:
    """So many results on a tile, so many steps of the reduction at once."""
    sketch = Sketch(w, (Nest("y", "i.0 | i.1 k.0 k.1", vector="k.1"),))
    return Candidate(sketch, {h: {"y.i.1": rows, "y.k.1": lanes}.get(h, 1) for h in sketch.holes})


@pytest.mark.parametrize("source, examples", [("shrinking", 30), ("seeded", 60)])
def test_any_number_of_results_and_lanes(source: str, examples: int) -> None:
    @many(examples, True)
    @given(SOURCES[source])
    def check(rng: Random) -> None:
        op = rng.choice(["sum", "sum", "max", "min"])
        dtype = rng.choice(["f32", "f32", "f64", "i32", "i64"] if op == "sum" else ["f32", "f16", "bf16", "u8"])
        w = rows_reduced(rng.randint(1, 40), rng.randint(1, 70), dtype, op)
        candidate = in_lanes(w, rng.randint(1, 40), rng.choice([1, 2, 4, 8, 16, 24, 32]))
        note(describe(w, candidate))
        rows, length = w.inputs[0].shape
        given = {"x": np.array([rng.randint(0, 9) for _ in range(rows * length)]).reshape(rows, length).astype(_numpy(w))}
        assert not disagreements(w, candidate, arrays=given)

    check()


def _numpy(w: Workload) -> np.dtype:
    return ts.compile(w).inputs[0].numpy_dtype


@pytest.mark.parametrize("op", REDUCTIONS)
def test_every_reduction(op: str) -> None:
    w = rows_reduced(13, 16, "f32", op)
    rng = np.random.default_rng(0)
    assert not disagreements(w, in_lanes(w, 13, 16), arrays={"x": rng.choice(np.float32([-2, -1, 0.5, 1, 2]), (13, 16))})


def test_eight_sums_share_moves_and_additions() -> None:
    """Of eight vectors of eight lanes: 14 moves and 7 additions, where each alone would take 3 of both, and one number to pick."""
    target = ts.Target.named("znver3")
    text = generate(lower(in_lanes(rows_reduced(8, 8), 8, 8)), target).ir
    moves = re.findall(r"shufflevector <8 x float> .*<8 x i32> <i32", text)
    additions = re.findall(r"fadd .*<8 x float>", text)
    assert (len(moves), len(additions)) == (14, 8 + 7)  # and one addition for each vector that is loaded


@pytest.mark.parametrize("target", ["znver3", "znver4", "skylake-avx512"])
def test_sums_are_stored_as_vectors(target: str) -> None:
    """Those of neighbours: no number is stored alone."""
    code = ts.compile(transposed(32, 24, 1), target=target).assembly
    stored = re.findall(r"\bv(?:movss|extractps|movd)\b.*, -?\d*\(", code)
    assert not stored and re.search(r"vmovu?ps\s+%[yz]mm\d+, -?\d*\(", code)


def transposed(image: int, channels: int, results: int) -> Workload:
    """A transposed convolution that doubles an image."""
    x = ts.placeholder((1, image, image, channels), name="x")
    weight = ts.placeholder((2, 2, channels, results), name="w", constant=True)
    return workload([x, weight, transposed_conv2d(x, weight, 2)])


@pytest.mark.parametrize("source, examples", [("shrinking", 15), ("seeded", 25)])
def test_few_results_for_each_row(source: str, examples: int) -> None:
    """Default schedules of transposed convolutions to few channels, of any depth."""

    @many(examples, True)
    @given(SOURCES[source])
    def check(rng: Random) -> None:
        w = transposed(rng.randint(1, 19), rng.randint(8, 40), rng.randint(1, 7))
        candidate = default_candidate(w, ts.Target.native())
        note(describe(w, candidate))
        assert not disagreements(w, candidate, rng.randint(0, 99))

    check()
