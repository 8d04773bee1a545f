"""Every type of elements and every kind of operation on OpenCL, by the default schedule; and LLVM takes them for PTX."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.backends.gpu.drawn import OPENCL, problems

import tensorsmith as ts
from tensorsmith.backends.gpu.default import default_candidate
from tensorsmith.backends.gpu.printers.llvm import assembly
from tensorsmith.backends.gpu.printers.machines import MACHINES
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.build import build
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Expr
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower


def product(dtype: str) -> Workload:
    a, b = ts.placeholder((9, 11), dtype, name="A"), ts.placeholder((11, 7), dtype, name="B")
    k = ts.reduce_axis(11, name="k")
    return ts.workload([a, b, ts.compute((9, 7), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])


def each(dtype: str, body: Callable[[ts.Tensor, Expr], Expr]) -> Workload:
    x = ts.placeholder((33,), dtype, name="X")
    return ts.workload([x, ts.compute((33,), lambda i: body(x, i), name="Y")])


def gathered() -> Workload:
    x, n = ts.placeholder((33,), name="X"), ts.placeholder((12,), "i32", name="N")
    return ts.workload([x, n, ts.compute((12,), lambda i: x[n[i]], name="Y")])


def functions(x: ts.Tensor, i: Expr) -> Expr:
    smooth = ts.erf(x[i]) + ts.sigmoid(x[i]) + ts.sqrt(abs(x[i])) + ts.log(abs(x[i]) + 1.0) + ts.tanh(x[i])
    return smooth + ts.floor(x[i] * 3.0) % 2.0 + x[i] ** 2.0


WORKLOADS = {
    **{f"product of {name}": product(name) for name in ("f16", "f64", "i8", "i64")},
    "f16": each("f16", lambda x, i: ts.exp(x[i]) * 2.0 + 1.0),
    "truth values": each("f32", lambda x, i: x[i] > 0.25),
    "computed index": each("f32", lambda x, i: x[(i * 7 + 3) % 33]),
    "to whole numbers": each("f32", lambda x, i: ts.cast("i32", x[i] * 10.0) // 3),
    "u8": each("u8", lambda x, i: x[i] + 7),
    "functions": each("f32", functions),
    "gathered": gathered(),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_it_is_right(name: str) -> None:
    workload = WORKLOADS[name]
    candidate, inputs = default_candidate(workload, OPENCL), random_inputs(workload, 0)
    assert problems(workload, evaluate(workload, inputs, precise=True), build(candidate, OPENCL)(**inputs)) == []
    assert ".visible .entry" in assembly(kernels(lower(candidate)), MACHINES["ptx"])
