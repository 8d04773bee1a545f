"""How many floating-point operations a workload takes.

Each arithmetic operation outside of indices counts once per element, and so does each function call; comparisons,
selects, loads and casts count nothing. A fused multiply-add is two. So a matmul is 2*N*M*K, a ReLU adds N*M,
padding adds 0. A value that is used again is computed once.
`ansor_flops` counts as the Ansor paper's system does: calls are free, comparisons of elements are not.
"""

from __future__ import annotations

import math

from tensorsmith.lang.cost import Inside, cost
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import ARITHMETIC, COMPARISONS, Binary, Expr, Load, Select, Unary
from tensorsmith.lang.workload import Stage, Workload


def flops(workload: Workload) -> int:
    """Operations of all stages together."""
    return sum(stage_flops(stage) for stage in workload.stages)


def ansor_flops(workload: Workload) -> int:
    """The same by the rules of the Ansor paper's system, to compare with its numbers."""
    return sum(stage_flops(stage, ansor=True) for stage in workload.stages)


def stage_flops(stage: Stage, *, ansor: bool = False) -> int:
    """Operations of one stage; a reduction adds one per term."""
    kinds = dtype(stage.dtype).kind if ansor else "f" + dtype(stage.dtype).kind
    each = _operations(stage.body, kinds, ansor) + (1 if stage.reduction else 0)
    return math.prod(a.extent for a in stage.all_axes) * each


def _operations(e: Expr, kinds: str, ansor: bool) -> int:
    """Operations of one element; only those on operands of one of the `kinds`, so that index arithmetic is free."""

    def own(x: Expr) -> int:
        if isinstance(x, Binary) and dtype(x.a.dtype).kind in kinds:
            return int(x.op != "pow" and (x.op in ARITHMETIC or x.op in COMPARISONS) if ansor else x.op in ARITHMETIC)
        if isinstance(x, Unary) and dtype(x.dtype).kind in kinds:
            return int(x.op in ("neg", "not") if ansor else x.op != "not")
        return 0

    return cost(e, own, _computed)


def _computed(e: Expr) -> Inside:
    if isinstance(e, Select):
        return (e.cond,), (e.a, e.b)
    return () if isinstance(e, Load) else e.operands, ()
