"""Stages that work element by element on another one which has their elements in the same order, in more dimensions.

    relu[n, h, w, c] = max(phases[n, h // 2, h % 2, w // 2, w % 2, c], 0)        with phases of (n, h / 2, 2, w / 2, 2, c)

Each dimension of the reader is some neighbouring ones of the other, so that its indices are sums: h = 2 * hq + hr.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.lang.expr import Axis, Const, Expr, Var
from tensorsmith.lang.flat import reads_in_order
from tensorsmith.lang.workload import Stage, Workload


def reshaped_source(workload: Workload, stage: Stage) -> Stage | None:
    """The stage whose elements an output reads, all in order and nothing else of it, if each of its dimensions is a part of one of
    the output's; None if there is no such stage, or something reads the output."""
    if stage.reduction or stage.name not in workload.outputs or workload.consumers[stage.name]:
        return None
    for name in dict.fromkeys(x.tensor for x in stage.reads):
        if workload.is_stage(name) and workload.consumers[name] == (stage.name,) and name not in workload.outputs:
            source = workload.stage(name)
            found = [x for x in stage.reads if x.tensor == name]
            in_order = all(reads_in_order(stage, x, source.shape) for x in found)
            if in_order and source.shape != stage.shape and parts_of(stage.axes, source.axes) is not None:
                return source
    return None


def parts_of(axes: Sequence[Axis], parts: Sequence[Axis]) -> dict[str, Expr] | None:
    """Each axis as a sum of neighbouring parts, in order; None if one begins or ends inside a part.

    >>> [str(e) for e in (parts_of([Axis("h", 6), Axis("c", 5)], [Axis("q", 3), Axis("r", 2), Axis("c", 5)]) or {}).values()]
    ['q * 2 + r', 'c']
    """
    left = [a for a in parts if a.extent > 1]
    found: dict[str, Expr] = {}
    for axis in axes:
        total = 1
        value: Expr | None = None
        while total < axis.extent and left:
            part = left.pop(0)
            total *= part.extent
            value = Var(part.name) if value is None else value * part.extent + Var(part.name)
        if total != axis.extent:
            return None
        found[axis.name] = Const(0, "i64") if value is None else value
    return found if not left else None
