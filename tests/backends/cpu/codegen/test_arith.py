"""Arithmetic on special values, in lanes and one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import binary
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

SPECIAL = [0.0, 0.25, 0.5, 1.0, 1.5, 3.0, 7.25, 0.1, 40.0, 1e4, 6e-8, math.inf, math.nan]


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_zeros_of_divisions_have_the_signs_that_numpy_gives_them(kind, op):
    """-0.0 // 1.0 and -0.5 // -1.0, 0.0 % -1.0 and -3.0 % 1.0, and all the others."""
    pairs = list(itertools.product([s * x for x in SPECIAL for s in (1, -1)], repeat=2))
    x, y = np.array(pairs, dtype(kind).numpy).T.copy()
    a, b = ts.placeholder(x.shape, kind, name="A"), ts.placeholder(x.shape, kind, name="B")
    workload = ts.workload([a, b, ts.compute(x.shape, lambda i: binary(op, a[i], b[i]), name="C")])
    with np.errstate(all="ignore"):
        want = (np.floor_divide if op == "floordiv" else np.remainder)(x, y)
    candidates = [plain_candidate(workload), default_candidate(workload, native())]
    results = {"the evaluator": evaluate(workload, {"A": x, "B": y})["C"]}
    results["the interpreter"] = interpret(lower(candidates[1]), {"A": x, "B": y})["C"]
    results |= {f"machine code {n}": build(c)(x, y) for n, c in enumerate(candidates)}
    for who, got in results.items():
        same = (got == want) & (np.signbit(got) == np.signbit(want)) | (np.isnan(got) & np.isnan(want))
        wrong = [(x[n], y[n], got[n], want[n]) for n in np.flatnonzero(~same)]
        assert not wrong, f"{who}: (a, b, got, want) {wrong[:5]} and more, {len(wrong)} in all"


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("nan", [math.nan, -math.nan])
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_a_constant_that_is_nan_wins_against_every_number(kind, nan, plain):
    a = ts.placeholder((19,), kind, name="A")
    workload = ts.workload(
        [
            a,
            ts.compute((19,), lambda i: ts.maximum(a[i], nan), name="B"),
            ts.compute((19,), lambda i: ts.minimum(nan, a[i]), name="C"),
        ]
    )
    candidate = plain_candidate(workload) if plain else default_candidate(workload, native())
    for result in build(candidate)(np.arange(-9, 10).astype({"f16": "f2", "f32": "f4", "f64": "f8"}[kind])):
        assert np.isnan(result).all()
