"""TVM's MetaSchedule itself, from its wheel, as a peer: a case as a tensor expression, tuned with as many trials as everyone has.

`pip install 'apache-tvm[meta-schedule,popen-pool]' apache-tvm-ffi==0.1.14.post1`: newer ones of the latter crash when records are
written. Without xgboost its scores are random, which is what they are below 100 samples anyway.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from frameworks import Unavailable
from tensorsmith.lang.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from tensorsmith.lang.stage import Stage
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.catalogue import Case
from tensorsmith.targets.target import native

Form = tuple[str, Callable[[], object], Callable[[], np.ndarray]]
_TIMEOUT = 180.0  # seconds for a build: on a busy machine its workers start slowly


def forms(case: Case, arrays: Sequence[np.ndarray], threads: int, trials: int) -> Iterator[Form]:
    """Name, what to run, and its result."""
    os.environ.setdefault("TVM_NUM_THREADS", str(threads))  # read when it is imported
    import tvm

    workload = case.workload()
    function = tuned(tvm, primitive(tvm, workload), threads, trials)
    result = workload.buffers[workload.outputs[0]]
    device = tvm.cpu()
    held = [tvm.runtime.tensor(array, device) for array in arrays]
    out = tvm.runtime.tensor(np.zeros(result.shape, np.float32), device)
    yield "tvm-wheel", lambda: function(*held, out), lambda: _called(function, held, out)


def _called(function: Callable[..., object], held: Sequence[Any], out: Any) -> np.ndarray:
    function(*held, out)
    return np.asarray(out.numpy())


def tuned(tvm: Any, function: Any, threads: int, trials: int) -> Callable[..., object]:
    """The best of a search, compiled."""
    import cloudpickle
    from tvm.s_tir import meta_schedule as ms

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # its workers do not know this module
    target = tvm.target.Target({"kind": "llvm", "mcpu": native().cpu, "num-cores": threads})  # type: ignore[attr-defined]
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    with tempfile.TemporaryDirectory() as folder:
        database = ms.tune_tir(
            mod=module,
            target=target,
            work_dir=folder,
            max_trials_global=trials,
            num_trials_per_iter=min(64, trials),
            builder=ms.builder.LocalBuilder(max_workers=threads, timeout_sec=_TIMEOUT, f_build=_plain_build),
            runner=ms.runner.LocalRunner(timeout_sec=_TIMEOUT),
            cost_model="xgb" if importlib.util.find_spec("xgboost") else "random",
            seed=0,
        )
        schedule = ms.tir_integration.compile_tir(database, module, target)
    if schedule is None:
        raise Unavailable(f"none of its {trials} programs ran")
    made = tvm.compile(schedule.mod, target=target)
    return (made.jit() if hasattr(made, "jit") else made)["main"]


def _plain_build(mod: Any, target: Any, _params: Any) -> Any:
    """Its own build function also loads the instructions of all machines, which takes each worker twenty seconds."""
    from tvm.driver import build
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    return build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), target=target)


def primitive(tvm: Any, workload: Workload) -> Any:
    """A workload as a function of TVM's intermediate language."""
    if len(workload.outputs) != 1 or any(b.dtype != "f32" for b in workload.buffers.values()):
        raise Unavailable("only workloads of one result and of f32 are written in TVM here")
    te = tvm.te
    tensors = {b.name: te.placeholder(b.shape, "float32", name=b.name) for b in workload.inputs}
    for stage in workload.stages:
        tensors[stage.name] = _compute(tvm, stage, dict(tensors))
    inputs = [tensors[b.name] for b in workload.inputs]
    return te.create_prim_func([*inputs, tensors[workload.outputs[0]]])


def _compute(tvm: Any, stage: Stage, tensors: dict[str, Any]) -> Any:
    te = tvm.te
    reduced = {a.name: te.reduce_axis((0, a.extent), name=a.name) for a in stage.reduce_axes}
    reduce = {"sum": te.sum, "max": te.max, "min": te.min}.get(stage.reduction or "")
    if stage.reduction and reduce is None:
        raise Unavailable(f"a reduction by {stage.reduction} is not written in TVM here")

    def body(*place: Any) -> Any:
        names = {**{a.name: at for a, at in zip(stage.axes, place)}, **{n: axis.var for n, axis in reduced.items()}}
        value = _value(tvm, stage.body, names, tensors, {})
        return reduce(value, axis=list(reduced.values())) if reduce else value

    return te.compute(stage.shape, body, name=stage.name)


def _value(tvm: Any, e: Expr, names: dict[str, Any], tensors: dict[str, Any], done: dict[Expr, Any]) -> Any:
    if e not in done:
        value = functools.partial(_value, tvm, names=names, tensors=tensors, done=done)
        done[e] = _made(tvm.tirx, e, lambda x: value(x), names, tensors)
    return done[e]


def _made(t: Any, e: Expr, value: Callable[[Expr], Any], names: dict[str, Any], tensors: dict[str, Any]) -> Any:
    if isinstance(e, Const):
        return t.const(e.value, "float32" if e.dtype == "f32" else "bool" if e.dtype == "bool" else "int32")
    if isinstance(e, Var):
        return names[e.name]
    if isinstance(e, Load):
        return tensors[e.tensor](*(value(i) for i in e.indices))
    if isinstance(e, Select):
        return t.if_then_else(value(e.cond), value(e.a), value(e.b))
    if isinstance(e, Cast) and e.dtype in ("f32", "i32", "i64"):
        return value(e.a).astype("float32" if e.dtype == "f32" else "int32")
    if isinstance(e, Binary) and e.op in _BINARY:
        return _BINARY[e.op](t, value(e.a), value(e.b))
    if isinstance(e, Unary) and e.op in ("exp", "sqrt", "tanh", "log", "abs", "sigmoid", "erf", "floor", "ceil"):
        return getattr(t, e.op)(value(e.a))
    if isinstance(e, Unary) and e.op == "neg":
        return -value(e.a)
    raise Unavailable(f"{type(e).__name__} {getattr(e, 'op', '')} is not written in TVM here".replace("  ", " "))


_BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "mul": lambda t, a, b: a * b,
    "div": lambda t, a, b: a / b,
    "floordiv": lambda t, a, b: t.floordiv(a, b),
    "mod": lambda t, a, b: t.floormod(a, b),
    "max": lambda t, a, b: t.max(a, b),
    "min": lambda t, a, b: t.min(a, b),
    "lt": lambda t, a, b: a < b,
    "le": lambda t, a, b: a <= b,
    "eq": lambda t, a, b: a.equal(b),
    "and": lambda t, a, b: t.all(a, b),
    "or": lambda t, a, b: t.any(a, b),
}
