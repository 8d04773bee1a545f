"""The words of a definition refuse what makes no sense, by a message that says what would."""

from __future__ import annotations

import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts

A = ts.placeholder((4, 5), name="A")
B = ts.compute((4,), lambda i: A[i, 0] + 1.0, name="B")


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda: ts.placeholder(None), "shape None"),
        (lambda: ts.placeholder({4, 5}), "shape {4, 5}"),
        (lambda: ts.placeholder((2.5,)), "whole number"),
        (lambda: ts.placeholder((1 << 40, 1 << 40)), "no memory"),
        (lambda: ts.placeholder((2,), name=5), "called 5"),
        (lambda: ts.placeholder((2,), name=""), "not empty"),
        (lambda: ts.placeholder((2,), None), "unknown element type None"),
        (lambda: ts.cast(A[0, 0], "f32"), "unknown element type"),
        (lambda: ts.reduce_axis(2.0), "shape 2.0"),
        (lambda: ts.reduce_axis((3, 4)), "one whole number"),
        (lambda: ts.reduce_axis(3, name=7), "called 7"),
        (lambda: ts.compute((2,), None), "a function of its axes"),
        (lambda: ts.compute((2,), max), "a function of its axes"),
        (lambda: ts.compute((2,), lambda *, i: 1.0), "1 dimension,"),
        (lambda: ts.compute((2,), lambda i: 1.0, name=3), "called 3"),
        (lambda: ts.workload(None), "list of tensors"),
        (lambda: ts.workload(A), "list of tensors"),
        (lambda: ts.workload([A, B, B]), "'B' is an output more than once"),
    ],
)
def test_refusals(define, words):
    with pytest.raises(UserError, match=words):
        define()


def test_a_forgotten_argument_is_reported_under_the_name_of_the_function():
    with pytest.raises(TypeError, match=r"^sum\(\)"):
        ts.sum(A[0, 0])
