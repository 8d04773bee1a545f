"""Arithmetic on special values, in lanes and one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorsmith.compile import build
from tensorsmith.lang import define as ts
from tensorsmith.space.default import default_candidate
from tensorsmith.space.plain import plain_candidate
from tensorsmith.target import native


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
