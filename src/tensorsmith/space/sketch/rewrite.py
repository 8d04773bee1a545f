"""Rewrites of a workload's DAG that a sketch may ask for before its nests apply.

Each is pure: a workload in, a workload that computes the same outputs.

    inline(B)        B[i] = A[i] + 1; C[i] = B[i] * 2          ->  C[i] = (A[i] + 1) * 2
    cache_write(C)   C[i, j] = sum(...)                        ->  C.cache[i, j] = sum(...); C[i, j] = C.cache[i, j]
    rfactor(C, k, n) C[i] = sum(A[i, k], over k<n*m)           ->  C.rf[i, k.f] = sum(A[i, k.f * m + k], over k<m)
                                                                   C[i] = sum(C.rf[i, k.f], over k.f<n)
    alias(R)         R[i] = C[i // 4, i % 4], C otherwise unread  ->  C is the output: the same bytes under another shape
    cache_read(C, B) C[i, j] = sum(A[i, k] * B[k, j])          ->  B.pack[k, j] = B[k, j]; C[i, j] = sum(A[i, k] * B.pack[k, j])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import evaluate
from tensorsmith.lang.dtypes import is_float
from tensorsmith.lang.expr import Axis, Binary, Const, Expr, Load, Select, Var, substitute, transform
from tensorsmith.lang.inline import inline
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.space.analysis import is_reshape


@dataclass(frozen=True)
class Rewrite:
    """One rewrite by name, with its numbers."""

    kind: str  # "inline", "cache_write", "rfactor", "cache_read" or "alias"
    stage: str
    axis: str = ""  # rfactor: the reduction axis; cache_read: the tensor that `stage` reads through a copy
    factor: int = 0
    inner: bool = False  # rfactor: the factored axis runs over neighbouring elements (for vectors) instead of far ones

    def to_json(self) -> list[Any]:
        if self.kind == "cache_read":
            return [self.kind, self.stage, self.axis]
        return [self.kind, self.stage, *([self.axis, self.factor, self.inner] if self.kind == "rfactor" else [])]

    def __str__(self) -> str:
        if self.kind != "rfactor":
            return f"{self.kind}({self.stage}{', ' + self.axis if self.axis else ''})"
        return f"rfactor({self.stage}, {self.axis}, {self.factor}{', inner' if self.inner else ''})"


def rewrite_from_json(data: Sequence[Any]) -> Rewrite:
    kind, stage, *rest = data
    if kind == "rfactor":
        axis, factor, inner = rest
        return Rewrite(kind, str(stage), str(axis), int(factor), bool(inner))
    if kind == "cache_read":
        (tensor,) = rest
        return Rewrite(kind, str(stage), str(tensor))
    return Rewrite(str(kind), str(stage))


def apply_rewrites(workload: Workload, rewrites: Sequence[Rewrite]) -> Workload:
    """The workload after all rewrites, in order."""
    for r in rewrites:
        if not workload.is_stage(r.stage):
            raise UserError(f"{r}: the workload has no stage {r.stage!r}")
        if r.kind == "inline":
            workload = inline(workload, r.stage)
        elif r.kind == "cache_write":
            workload = cache_write(workload, r.stage)
        elif r.kind == "rfactor":
            workload = rfactor(workload, r.stage, r.axis, r.factor, r.inner)
        elif r.kind == "alias":
            workload = alias(workload, r.stage)
        elif r.kind == "cache_read":
            workload = cache_read(workload, r.stage, r.axis)
        else:
            raise UserError(f"unknown rewrite {r.kind!r}")
    return workload


def cache_write(workload: Workload, name: str) -> Workload:
    """Computes a stage into a buffer of its own and copies that to the stage."""
    stage = workload.stage(name)
    cache = replace(stage, name=f"{name}.cache")
    copy = Stage(name, stage.axes, Load(cache.name, tuple(Var(a.name) for a in stage.axes), stage.dtype))
    return _replaced(workload, name, [cache, copy])


def rfactor(workload: Workload, name: str, axis: str, factor: int, inner: bool = False) -> Workload:
    """Splits a reduction into `factor` partial ones over an axis that becomes spatial, and a small final one.

    With `inner` the partial results take neighbouring elements (element k goes to k % factor), else contiguous blocks.
    """
    stage = workload.stage(name)
    if not stage.reduction or axis not in {a.name for a in stage.reduce_axes}:
        raise Refusal("rfactor of no reduction", f"{name}.{axis}")
    total = stage.axis(axis).extent
    factor = max(1, min(factor, total))
    length = -(-total // factor)
    factored = Axis(f"{axis}_f", factor)
    rest = Axis(axis, length)
    k: Expr = Var(axis) * factor + Var(factored.name) if inner else Var(factored.name) * length + Var(axis)
    body = substitute(stage.body, {axis: k})
    if factor * length != total:  # a partial result whose elements ran out adds nothing
        body = Select(Binary("lt", k, Const(total, "i64")), body, identity(stage.reduction, stage.dtype))
    partial = Stage(
        f"{name}.rf",
        (*stage.axes, factored),
        body,
        stage.reduction,
        tuple(rest if a.name == axis else a for a in stage.reduce_axes),
    )
    indices = (*(Var(a.name) for a in stage.axes), Var(factored.name))
    final = Stage(name, stage.axes, Load(partial.name, indices, stage.dtype), stage.reduction, (factored,))
    return _replaced(workload, name, [partial, final])


def cache_read(workload: Workload, reader: str, tensor: str) -> Workload:
    """Lets a stage read a tensor through a copy, which can then be laid out as the stage's loops want it."""
    stage = workload.stage(reader)
    reads = [x for x in stage.reads if x.tensor == tensor]
    if len(reads) != 1 or any(not isinstance(i, Var) for i in reads[0].indices):
        raise Refusal("cannot pack", f"{reader} must read {tensor} once, at plain axes")
    (read,) = reads
    names = [i.name for i in read.indices if isinstance(i, Var)]
    if len(set(names)) != len(names):
        raise Refusal("cannot pack", f"{reader} reads a diagonal of {tensor}")
    shape = workload.buffers[tensor].shape
    copy = Stage(f"{tensor}.pack", tuple(Axis(n, e) for n, e in zip(names, shape)), read)

    def from_copy(e: Expr) -> Expr | None:
        return Load(copy.name, e.indices, e.dtype) if isinstance(e, Load) and e.tensor == tensor else None

    return _replaced(workload, reader, [copy, replace(stage, body=transform(stage.body, from_copy))])


def alias(workload: Workload, name: str) -> Workload:
    """Drops an output that is only a reshape of a stage: that stage is written to the output's memory at once.

    The outputs keep their places; the one in question bears the other stage's name and shape from here on.
    """
    source = is_reshape(workload, workload.stage(name))
    if name not in workload.outputs or workload.consumers[name] or source is None or not workload.is_stage(source):
        raise Refusal("cannot alias", f"{name} must be an output that only reshapes a stage")
    if source in workload.outputs:
        raise Refusal("cannot alias", f"{source} is an output itself")
    outputs = tuple(source if n == name else n for n in workload.outputs)
    return Workload(workload.inputs, tuple(s for s in workload.stages if s.name != name), outputs)


def identity(reduction: str, dtype_name: str) -> Const:
    """The value that a reduction starts from, as an expression."""
    number = evaluate.identity(reduction, dtype_name)
    return Const(float(number) if is_float(dtype_name) else number, dtype_name)


def _replaced(workload: Workload, name: str, new: list[Stage]) -> Workload:
    names = [a.name for a in new[0].all_axes]
    if new[0].name in workload.buffers or len(set(names)) != len(names):
        raise Refusal("name taken", f"{new[0].name} over {', '.join(names)}: the stage was rewritten in this way before")
    stages: list[Stage] = []
    for s in workload.stages:
        stages.extend(new if s.name == name else [s])
    return Workload(workload.inputs, tuple(stages), workload.outputs)
