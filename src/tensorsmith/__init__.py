"""Tensorsmith: finds, by search, a program for a tensor computation that is as fast as the machine allows.

    import tensorsmith as ts

    A = ts.placeholder((512, 512), name="A")
    B = ts.placeholder((512, 512), name="B", constant=True)
    k = ts.reduce_axis(512, name="k")
    C = ts.compute((512, 512), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")

    kernel = ts.compile([A, B, C]).bind(B=b)
    c = kernel(a)

    model = ts.load("model.onnx")
    executable = ts.compile(model, database="tune.db")
    y = executable(x)

More element functions (sin, floor, round, ...) are in `tensorsmith.lang.define`, ready-made operators in `tensorsmith.ops`.
"""

from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.frontends.load import from_torch, load
from tensorsmith.graph.model import Model
from tensorsmith.lang.define import (
    abs,
    cast,
    compute,
    erf,
    exp,
    expm1,
    log,
    log1p,
    max,
    maximum,
    min,
    minimum,
    placeholder,
    prod,
    reduce_axis,
    select,
    sigmoid,
    sqrt,
    sum,
    tanh,
    workload,
)
from tensorsmith.runtime.file import load as load_executable
from tensorsmith.runtime.peak import measure_peak
from tensorsmith.space.registry import sketches
from tensorsmith.tune import tune

__version__ = "0.1.0"

__all__ = [
    "Model",
    "UserError",
    "abs",
    "cast",
    "compile",
    "compute",
    "erf",
    "exp",
    "expm1",
    "from_torch",
    "load",
    "load_executable",
    "log",
    "log1p",
    "max",
    "maximum",
    "measure_peak",
    "min",
    "minimum",
    "placeholder",
    "prod",
    "reduce_axis",
    "select",
    "sigmoid",
    "sketches",
    "sqrt",
    "sum",
    "tanh",
    "tune",
    "workload",
]
