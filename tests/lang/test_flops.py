"""Operation counts."""

from __future__ import annotations

import pytest

from tensorsmith.lang import define as ts
from tensorsmith.lang.flops import ansor_flops, flops, stage_flops

A = ts.placeholder((4, 6), name="A")
I = ts.placeholder((4, 6), "i32", name="I")
k = ts.reduce_axis(6, "k")


@pytest.mark.parametrize(
    ("body", "ours", "ansor"),
    [
        (lambda i, j: ts.sum(A[i, k] * A[j, k], axis=k), 2 * 6, 2 * 6),
        (lambda i, j: ts.maximum(A[i, j], 0), 1, 1),
        (lambda i, j: ts.select((i >= 1) & (j < 3), A[i - 1, j * 1], 0), 0, 0),  # padding
        (lambda i, j: ts.select(A[i, j] < 0, A[i, j] * 2 + 1, A[i, j] * 2), 2, 3),
        (lambda i, j: ts.exp(A[i, j] - 1), 2, 1),
        (lambda i, j: ts.max(A[i, k], axis=k), 6, 6),
        (lambda i, j: A[i, j] ** 2, 1, 0),
        (lambda i, j: -ts.abs(A[i, j]), 2, 1),
        (lambda i, j: A[(i + 1) % 4, j] + 0, 1, 1),
        (lambda i, j: I[i, j] * 2 + 1, 2, 2),
        (lambda i, j: ts.cast("i32", A[i, j] * 2), 1, 0),
        (lambda i, j: ts.cast("f32", i + 1) * 2, 1, 1),
    ],
)
def test_stage(body, ours, ansor):
    stage = ts.compute((4, 4), body, name="C").stage
    assert stage is not None
    assert stage_flops(stage) == 16 * ours
    assert stage_flops(stage, ansor=True) == 16 * ansor


def test_workload_is_the_sum_of_its_stages():
    b = ts.compute((4, 6), lambda i, j: ts.exp(A[i, j] * 2), name="B")
    c = ts.compute((4, 6), lambda i, j: b[i, j] + 1, name="C")
    w = ts.workload([A, c])
    assert flops(w) == 24 * 3
    assert ansor_flops(w) == 24 * 2
