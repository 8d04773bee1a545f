"""Inlining: a stage's body in place of every read of it.

B[i] = A[i] + 1; C[i] = B[i] * 2        ->    C[i] = (A[i] + 1) * 2
"""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.errors import Refusal
from tensorsmith.lang.expr import Binary, Const, Expr, Load, substitute, transform
from tensorsmith.lang.workload import Stage, Workload, topological


def inline(workload: Workload, name: str) -> Workload:
    """The workload without a stage that is no reduction and no output. Stages that do not read it stay the objects they are."""
    stage = workload.stage(name)
    if stage.reduction:
        raise Refusal("inlined reduction", name)
    if name in workload.outputs:
        raise Refusal("inlined output", name)
    readers = workload.consumers[name]
    stages = [_without_reads(s, stage) if s.name in readers else s for s in workload.stages if s.name != name]
    return Workload(workload.inputs, topological(stages), workload.outputs)


def _without_reads(reader: Stage, stage: Stage) -> Stage:
    bounds = reader.bounds()

    def body_at(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.tensor != stage.name:
            return None
        values: dict[str, Expr] = {}
        for axis, index in zip(stage.axes, e.indices):
            value = transform(index, body_at)
            if bounds.range(index) is None:  # computed from data: the load clamped it to this stage's edges
                value = Binary("max", Binary("min", value, Const(axis.extent - 1, "i64")), Const(0, "i64"))
            values[axis.name] = value
        return substitute(stage.body, values)

    return replace(reader, body=transform(reader.body, body_at))
