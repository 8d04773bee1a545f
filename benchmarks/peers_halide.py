"""Halide itself, from its wheel, as a peer: a case is written down in Halide, statement by statement, and scheduled by the
auto-scheduler of Adams et al. (2019) with the weights that Halide ships. There is no search that measures: its plain answer.

    C[i, j] = sum(A[i, k] * B[k, j])    ->    C(j, i) = 0;  C(j, i) += A(r, i) * B(j, r)        dimensions the other way round
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from frameworks import Unavailable
from tensorsmith.lang.evaluate import identity
from tensorsmith.lang.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var, binary
from tensorsmith.lang.stage import Stage
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.catalogue import Case

Form = tuple[str, Callable[[], object], Callable[[], np.ndarray]]
PLUGIN = "autoschedule_adams2019"


def forms(case: Case, arrays: Sequence[np.ndarray], threads: int) -> Iterator[Form]:
    """Name, what to run, and its result."""
    os.environ["HL_NUM_THREADS"] = str(threads)  # read when its thread pool starts
    import halide as hl

    workload = case.workload()
    inputs = {b.name: hl.Buffer(array) for b, array in zip(workload.inputs, arrays)}
    run, out = scheduled(hl, workload, inputs, threads)

    def output() -> np.ndarray:
        run()
        return np.asarray(out)

    yield "halide-wheel", run, output


def scheduled(hl: Any, workload: Workload, inputs: dict[str, Any], threads: int) -> tuple[Callable[[], object], np.ndarray]:
    """The pipeline of a workload, compiled, and the array that it writes to."""
    written = Written(hl, workload)
    pipeline, result = written.pipeline(), workload.buffers[workload.outputs[0]]
    hl.load_plugin(_plugin(hl))
    parameters = hl.AutoschedulerParams("Adams2019", {"parallelism": str(threads)})
    target = hl.get_host_target()
    pipeline.apply_autoscheduler(target, parameters)
    for name, buffer in inputs.items():
        written.inputs[name].set(buffer)
    pipeline.compile_jit(target)
    out = np.zeros(result.shape or (1,), np.float32)
    held = hl.Buffer(out)
    return (lambda: pipeline.realize(held)), out.reshape(result.shape)


def _plugin(hl: Any) -> str:
    folder = Path(hl.__file__).parent
    found = next(folder.rglob(f"*{PLUGIN}*"), None)
    if found is None:
        raise Unavailable(f"this wheel of Halide has no {PLUGIN}")
    return str(found)


class Written:
    """A workload in Halide's words: a function for each stage."""

    def __init__(self, hl: Any, workload: Workload) -> None:
        self.hl, self.workload = hl, workload
        if len(workload.outputs) != 1 or any(b.dtype != "f32" for b in workload.buffers.values()):
            raise Unavailable("only workloads of one result and of f32 are written in Halide here")
        self.inputs = {b.name: hl.ImageParam(hl.Float(32), len(b.shape), b.name) for b in workload.inputs}
        self.functions: dict[str, Any] = {}
        for stage in workload.stages:
            self.functions[stage.name] = self._function(stage)

    def pipeline(self) -> Any:
        """With the sizes that the auto-scheduler asks for."""
        for b in self.workload.inputs:
            for d, extent in enumerate(reversed(b.shape)):
                self.inputs[b.name].dim(d).set_bounds(0, extent)
                self.inputs[b.name].dim(d).set_estimate(0, extent)
        output = self.functions[self.workload.outputs[0]]
        output.set_estimates([(0, extent) for extent in reversed(self.workload.buffers[self.workload.outputs[0]].shape or (1,))])
        return self.hl.Pipeline(output)

    def _function(self, stage: Stage) -> Any:
        hl = self.hl
        function = hl.Func(stage.name)
        own = {a.name: hl.Var(a.name) for a in stage.axes}
        place = tuple(reversed(own.values())) or (hl.Var("one"),)
        if not stage.reduction:
            function[place] = self._value(stage.body, own, {})
            return function
        sizes = [(0, a.extent) for a in reversed(stage.reduce_axes)]
        domain = hl.RDom(sizes)
        inner = dict(zip((a.name for a in reversed(stage.reduce_axes)), (domain[n] for n in range(len(sizes)))))
        start = identity(stage.reduction, stage.dtype)
        function[place] = hl.f32(start if math.isfinite(start) else math.copysign(3.4e38, start))
        value = self._value(stage.body, {**own, **inner}, {})
        combine = {"sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": hl.max, "min": hl.min}[stage.reduction]
        function[place] = combine(function[place], value)
        return function

    def _value(self, e: Expr, names: dict[str, Any], done: dict[Expr, Any]) -> Any:
        if e not in done:
            done[e] = self._made(e, functools.partial(self._value, names=names, done=done), names)
        return done[e]

    def _made(self, e: Expr, value: Callable[[Expr], Any], names: dict[str, Any]) -> Any:
        hl = self.hl
        if isinstance(e, Const):
            return hl.f32(float(e.value)) if e.dtype == "f32" else hl.i32(int(e.value))
        if isinstance(e, Var):
            return names[e.name]
        if isinstance(e, Load):
            at = tuple(hl.i32(value(i)) for i in reversed(e.indices)) or (hl.i32(0),)
            return self.inputs[e.tensor][at] if e.tensor in self.inputs else self.functions[e.tensor][at]
        if isinstance(e, Select):
            return hl.select(value(e.cond), *self._safe(e, value))
        if isinstance(e, Cast) and e.dtype in ("f32", "i32", "i64"):
            return (hl.f32 if e.dtype == "f32" else hl.i32)(value(e.a))
        if isinstance(e, Binary) and e.op in _BINARY:
            return _BINARY[e.op](hl, value(e.a), value(e.b))
        if isinstance(e, Unary) and e.op in _UNARY:
            return _UNARY[e.op](hl, value(e.a))
        raise Unavailable(f"{type(e).__name__} {getattr(e, 'op', '')} is not written in Halide here".replace("  ", " "))

    def _safe(self, e: Select, value: Callable[[Expr], Any]) -> tuple[Any, Any]:
        """Both sides of a condition; Halide computes both, so that what is read there is moved into the tensor."""
        return value(self._clamped(e.a)), value(self._clamped(e.b))

    def _clamped(self, e: Expr) -> Expr:
        if isinstance(e, Load):
            shape = self.workload.buffers[e.tensor].shape
            inside = tuple(binary("min", binary("max", i, 0), n - 1) for i, n in zip(e.indices, shape))
            return Load(e.tensor, inside, e.dtype)
        return e


_BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda hl, a, b: a + b,
    "sub": lambda hl, a, b: a - b,
    "mul": lambda hl, a, b: a * b,
    "div": lambda hl, a, b: a / b,
    "floordiv": lambda hl, a, b: a // b,
    "mod": lambda hl, a, b: a % b,
    "max": lambda hl, a, b: hl.max(a, b),
    "min": lambda hl, a, b: hl.min(a, b),
    "lt": lambda hl, a, b: a < b,
    "le": lambda hl, a, b: a <= b,
    "eq": lambda hl, a, b: a == b,
    "ne": lambda hl, a, b: a != b,
    "and": lambda hl, a, b: a & b,
    "or": lambda hl, a, b: a | b,
}
_UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "neg": lambda hl, a: -a,
    "abs": lambda hl, a: hl.abs(a),
    "not": lambda hl, a: ~a,
    "exp": lambda hl, a: hl.exp(a),
    "log": lambda hl, a: hl.log(a),
    "sqrt": lambda hl, a: hl.sqrt(a),
    "tanh": lambda hl, a: hl.tanh(a),
}
