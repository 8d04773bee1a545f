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

Elements are combined by Python's operators (`+ - * / // % **`, `< <= == !=`, `& | ^ ~ << >>`), by `select` (or `where`), `minimum`,
`maximum`, `clip`, `power`, `fmod`, `atan2`, `hypot`, `cast` and `bits_as`, and by functions of one: `abs sign square reciprocal`,
`sqrt rsqrt exp exp2 expm1 log log2 log10 log1p`, `sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh`, `sigmoid erf`,
`floor ceil round trunc`, `isnan isinf isfinite`. Reductions are `sum`, `prod`, `max`, `min`, `mean`, `any`, `all`, `argmax` and
`argmin`. These are all there are; docs/language.md explains each. Ready-made operators are in `tensorsmith.ops`.
"""

import logging as _logging

from tensorsmith.backends import sketches
from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.frontends.load import from_torch, load
from tensorsmith.graph.model import Model
from tensorsmith.lang.words import (
    abs,
    acos,
    acosh,
    all,
    any,
    argmax,
    argmin,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bits_as,
    cast,
    ceil,
    clip,
    compute,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    fmod,
    hypot,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    max,
    maximum,
    mean,
    min,
    minimum,
    placeholder,
    power,
    prod,
    reciprocal,
    reduce_axis,
    round,
    rsqrt,
    select,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    sum,
    tan,
    tanh,
    trunc,
    where,
    workload,
)
from tensorsmith.report import report
from tensorsmith.runtime.device import measure_peak
from tensorsmith.runtime.load import load_any as load_executable
from tensorsmith.targets.target import Target, targets
from tensorsmith.tune import tune

__version__ = "0.1.0"

_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # docs/observe.md shows how to see it

__all__ = [
    "Model",
    "Target",
    "UserError",
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bits_as",
    "cast",
    "ceil",
    "clip",
    "compile",
    "compute",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmod",
    "from_torch",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "load",
    "load_executable",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "maximum",
    "mean",
    "measure_peak",
    "min",
    "minimum",
    "placeholder",
    "power",
    "prod",
    "reciprocal",
    "reduce_axis",
    "report",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sketches",
    "sqrt",
    "square",
    "sum",
    "tan",
    "tanh",
    "targets",
    "trunc",
    "tune",
    "where",
    "workload",
]
