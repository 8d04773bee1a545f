"""Definitions that use values again and again: written out, each would be about 2**n operations long."""

from __future__ import annotations

from collections.abc import Callable

from tensorsmith.lang import define as ts
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.workload import Workload

N = 33


def _row(n: int, step: Callable[[Tensor, int], Tensor]) -> Workload:
    a = value = ts.placeholder((N + n,), name="A")
    for k in range(n):
        value = step(value, k)
    return ts.workload([a, value])


def doubled(n: int) -> Workload:
    """Half of the sum, so that numbers stay what they are."""
    return _row(n, lambda p, k: ts.compute(p.shape, lambda i: (p[i] + p[i]) * 0.5, name=f"T{k}"))


def silu(n: int) -> Workload:
    return _row(n, lambda p, k: ts.compute(p.shape, lambda i: p[i] * ts.sigmoid(p[i]) + p[i], name=f"T{k}"))


def leaky(n: int) -> Workload:
    return _row(n, lambda p, k: ts.compute(p.shape, lambda i: ts.select(p[i] < 0.0, p[i] * 0.9, p[i]), name=f"T{k}"))


def neighbours(n: int) -> Workload:
    """Two places, one of which is found by a computation."""

    def step(p: Tensor, k: int) -> Tensor:
        last = p.shape[0] - 1
        return ts.compute(p.shape, lambda i: (p[i] + p[ts.minimum(i + 1, last)]) * 0.5, name=f"T{k}")

    return _row(n, step)


def windows(n: int) -> Workload:
    """Two places, at distances that add up."""
    return _row(n, lambda p, k: ts.compute((p.shape[0] - 1,), lambda i: (p[i] + p[i + 1]) * 0.5, name=f"T{k}"))


def mesh(n: int) -> Workload:
    """Each of two stages reads both of the two before."""
    a = left = right = ts.placeholder((N,), name="A")
    for k in range(n):
        stages = (
            ts.compute((N,), lambda i, p=left, q=right: (p[i] + q[i]) * 0.5, name=f"L{k}"),
            ts.compute((N,), lambda i, p=left, q=right: ts.maximum(p[i] - q[i], 0.25), name=f"R{k}"),
        )
        left, right = stages
    return ts.workload([a, ts.compute((N,), lambda i: left[i] - right[i], name="Y")])


def attached_mesh(n: int) -> Workload:
    """As before, of stages that are too dear to be computed twice: they share their rows instead."""
    a = left = right = ts.placeholder((5, 9), name="A")
    for k in range(n):
        stages = (
            ts.compute((5, 9), lambda i, j, p=left, q=right: ts.tanh(p[i, j] + q[i, j]), name=f"L{k}"),
            ts.compute((5, 9), lambda i, j, p=left, q=right: ts.exp(-ts.abs(p[i, j] - q[i, 8 - j])), name=f"R{k}"),
        )
        left, right = stages
    return ts.workload([a, ts.compute((5, 9), lambda i, j: left[i, j] - right[i, j], name="Y")])


def in_one_body(n: int) -> Workload:
    a = ts.placeholder((N,), name="A")

    def body(i):
        value = a[i]
        for _ in range(n):
            value = value * ts.tanh(value) + value
        return value

    return ts.workload([a, ts.compute((N,), body, name="Y")])


def guarded_outside(n: int, size: int = N) -> Workload:
    """Nested choices of a value that may be read only where the condition around all of them holds."""
    a = ts.placeholder((size,), name="A")

    def body(i):
        value = a[i - 1]
        for k in range(n):
            value = ts.select(value < 0.1 * k, value * 0.9, value + 0.1)
        return ts.select(i >= 1, value, 0.5)

    return ts.workload([a, ts.compute((size,), body, name="Y")])


def either_branch(n: int, size: int = N) -> Workload:
    """As before, but the choices are between two uses, made by the place."""
    a = ts.placeholder((size,), name="A")

    def body(i):
        value = a[i - 1] + a[i] * 0.5
        for k in range(n):
            chosen = i % (k + 2) < 1 if k % 2 else i < 3 * k
            value = ts.select(chosen, value * 0.9, value + 0.1)
        return ts.select(i >= 1, value, 0.5)

    return ts.workload([a, ts.compute((size,), body, name="Y")])


def guarded_inside(n: int, size: int = N) -> Workload:
    """The load has its own condition; the choices around it are made by the place."""
    a = ts.placeholder((size,), name="A")

    def body(i):
        value = ts.select(i >= 1, a[i - 1], 0.5)
        for k in range(n):
            value = ts.select(i < 3 * k + 2, value * 0.9, value + 0.1)
        return value

    return ts.workload([a, ts.compute((size,), body, name="Y")])


#: many stages
ROWS = (doubled, silu, leaky, neighbours, windows, mesh, attached_mesh)
KINDS = (*ROWS, in_one_body, guarded_outside, either_branch, guarded_inside)
