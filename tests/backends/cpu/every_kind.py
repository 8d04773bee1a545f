"""`python -m tests.backends.cpu.every_kind FOLDER`: operators of every kind on every type, compiled, saved, loaded and run, in a
process that has loaded nothing besides Tensorsmith, whose functions the code could call by accident."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import tensorsmith as ts
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.dtypes import NAMES, dtype, is_float
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Expr
from tensorsmith.ops import conv, elementwise, linalg, norm, reduce

#: libraries that bring functions of compilers' run-time libraries into a process
GUESTS = ("onnxruntime", "torch", "openvino", "scipy", "numba")
#: a few roundings of the type; whole numbers and bools are exact
TOLERANCE = {"f16": 2e-2, "bf16": 1e-1, "f32": 1e-5, "f64": 1e-13}

ROW = (6, 21)  # no multiple of any vector's lanes


def element(f: Callable[..., Expr], name: str, count: int = 2) -> list[Tensor]:
    inputs = [ts.placeholder(ROW, name, n) for n in "AB"[:count]]
    return [*inputs, elementwise.apply(f, *inputs, name="C")]


def of_numbers(name: str) -> Iterator[tuple[str, list[Tensor]]]:
    """Whatever has sums and products."""
    yield "elementwise", element(lambda a, b: ts.select(a < b, a * b + a, ts.maximum(a - b, ts.minimum(a, b))), name)
    yield "division", element(lambda a, b: a // b, name)
    yield "modulo", element(lambda a, b: a % b, name)
    a, b = ts.placeholder((9, 20), name, "A"), ts.placeholder((20, 21), name, "B")
    yield "matmul", [a, b, linalg.matmul(a, b)]
    x, weight = ts.placeholder((1, 9, 9, 5), name, "A"), ts.placeholder((3, 3, 5, 7), name, "B", constant=True)
    yield "convolution", [x, weight, conv.conv2d(x, weight, padding=1)]
    x = ts.placeholder(ROW, name, "A")
    yield "sum", [x, reduce.sum(x, 1)]
    yield "largest", [x, reduce.max(x, 0)]
    yield "position", [x, reduce.argmin(x, 1)]


def of_floats(name: str) -> Iterator[tuple[str, list[Tensor]]]:
    for function in (ts.exp, ts.log, ts.sqrt, ts.tanh, ts.sigmoid, ts.erf):
        yield function.__name__, element(lambda a, f=function: f(ts.abs(a) + 0.5), name, count=1)
    yield "quotient", element(lambda a, b: a / b, name)
    yield "power", element(lambda a, b: ts.abs(a) ** b, name)
    x = ts.placeholder(ROW, name, "A")
    yield "softmax", [x, norm.softmax(x)]
    yield "norm", [x, norm.normalize(x, [1])]


def of_bools(name: str) -> Iterator[tuple[str, list[Tensor]]]:
    yield "logic", element(lambda a, b: (a & b) | ~a, name)
    x = ts.placeholder(ROW, name, "A")
    yield "count", [x, reduce.sum(elementwise.cast("i32", x), 1)]


def computations() -> Iterator[tuple[str, list[Tensor]]]:
    for name in NAMES:
        kinds = [of_bools(name)] if name == "bool" else [of_numbers(name), *([of_floats(name)] if is_float(name) else [])]
        for kind in kinds:
            for what, tensors in kind:
                yield f"{what} of {name}", tensors
        for to in NAMES:
            yield f"{name} to {to}", element(lambda a, to=to: ts.cast(to, a), name, count=1)


def data(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Small numbers, none of them zero, so that every type holds them and every quotient is one."""
    if name == "bool":
        return rng.random(shape) < 0.5
    if is_float(name):
        return (rng.uniform(0.5, 3, shape) * rng.choice([-1, 1], shape)).astype(dtype(name).numpy)
    return rng.integers(1, 12, shape).astype(dtype(name).numpy)


def check(what: str, tensors: list[Tensor], path: Path) -> None:
    workload = ts.workload(tensors)
    rng = np.random.default_rng(len(what))
    given = {b.name: data(b.dtype, b.shape, rng) for b in workload.inputs}
    [result] = workload.outputs
    wanted = evaluate(workload, given, precise=True)[result]
    compiled = ts.compile(workload)
    compiled = compiled.bind(**{b.name: given[b.name] for b in workload.inputs if b.constant})
    compiled.save(path)
    rest = [given[b.name] for b in workload.inputs if not b.constant]
    for executable in (compiled, ts.load_executable(path)):
        got = executable(*rest)
        assert got.dtype == wanted.dtype, what
        bound = TOLERANCE.get(workload.buffers[result].dtype, 0)
        np.testing.assert_allclose(got.astype("f8"), wanted.astype("f8"), rtol=bound, atol=bound, err_msg=what)


def main() -> None:
    folder = Path(sys.argv[1])
    whole = list(computations())
    for what, tensors in whole:
        check(what, tensors, folder / "saved.tsm")
    loaded = [name for name in GUESTS if name in sys.modules]
    assert not loaded, f"the process was not bare: it has loaded {', '.join(loaded)}"
    print(f"{len(whole)} computations")


if __name__ == "__main__":
    main()
