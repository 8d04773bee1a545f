"""Inlining: a stage's body in place of every read of it.

B[i] = A[i] + 1; C[i] = B[i] * 2        ->    C[i] = (A[i] + 1) * 2
"""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.errors import Refusal
from tensorsmith.lang.cost import cost
from tensorsmith.lang.expr import Binary, Const, Expr, Load, Var, substitute, transform, walk
from tensorsmith.lang.workload import Stage, Workload, topological

_LARGEST_BODY = 256  # nodes of a body that others were put into: beyond it code grows, and compiling it, but nothing is saved
_MOST_REPEATED = 32  # operations that may be computed again, because a stage is read at more than one place


def inline(workload: Workload, name: str) -> Workload:
    """The workload without a stage that is no reduction and no output. Stages that do not read it stay the objects they are."""
    stage = workload.stage(name)
    if stage.reduction:
        raise Refusal("inlined reduction", name)
    if name in workload.outputs:
        raise Refusal("inlined output", name)
    if not fits(workload, name):
        raise Refusal("inlined body too large", name)
    readers = workload.consumers[name]
    stages = [_without_reads(s, stage) if s.name in readers else s for s in workload.stages if s.name != name]
    return Workload(workload.inputs, topological(stages), workload.outputs)


def fits(workload: Workload, name: str) -> bool:
    """Whether a stage is small enough to be put into all of its readers.

    Read by one stage at one place, however often it is used there, it is computed once. Read at several, it is computed for each of
    them, and so is what was put into it before: in a row of stages that each read the one before at two places, that would double
    every time.
    """
    stage = workload.stage(name)
    own = sum(1 for _ in walk(stage.body))
    total = 0
    for reader in (workload.stage(r) for r in workload.consumers[name]):
        places = sum(x.tensor == name for x in reader.reads)
        if sum(1 for _ in walk(reader.body)) + places * own > _LARGEST_BODY:
            return False
        total += places
    # what is computed from indices alone is for the most part decided when the code is written
    return not stage.reads or (total - 1) * _operations(stage.body) <= _MOST_REPEATED


def _operations(body: Expr) -> int:
    """How many operations an element takes, without those that say where to read."""

    def own(e: Expr) -> int:
        return 0 if isinstance(e, (Const, Var, Load)) else 1

    return cost(body, own, lambda e: (() if isinstance(e, Load) else e.operands, ()))


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
