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

Elements are combined by Python's operators (`+ - * / // % **`, `< <= == !=`, `& | ~`), by `minimum`, `maximum`, `select` and
`cast`, and by functions of one: `abs exp expm1 log log1p sqrt rsqrt tanh sigmoid erf sin cos floor ceil round`. Reductions are
`sum`, `prod`, `max` and `min`. These are all there are. Ready-made operators are in `tensorsmith.ops`.
"""

from tensorsmith.backends import sketches
from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.frontends.load import from_torch, load
from tensorsmith.graph.model import Model
from tensorsmith.lang.define import (
    abs,
    cast,
    ceil,
    compute,
    cos,
    erf,
    exp,
    expm1,
    floor,
    log,
    log1p,
    max,
    maximum,
    min,
    minimum,
    placeholder,
    prod,
    reduce_axis,
    round,
    rsqrt,
    select,
    sigmoid,
    sin,
    sqrt,
    sum,
    tanh,
    workload,
)
from tensorsmith.report import report
from tensorsmith.runtime.device import measure_peak
from tensorsmith.runtime.load import load_any as load_executable
from tensorsmith.targets.target import Target, targets
from tensorsmith.tune import tune

__version__ = "0.1.0"

__all__ = [
    "Model",
    "Target",
    "UserError",
    "abs",
    "cast",
    "ceil",
    "compile",
    "compute",
    "cos",
    "erf",
    "exp",
    "expm1",
    "floor",
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
    "report",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sin",
    "sketches",
    "sqrt",
    "sum",
    "tanh",
    "targets",
    "tune",
    "workload",
]
