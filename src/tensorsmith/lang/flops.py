"""How many floating-point operations a workload takes.

Each arithmetic operation outside of indices counts once per element, and so does each function call; comparisons,
selects, loads and casts count nothing. A fused multiply-add is two. So a matmul is 2*N*M*K, a ReLU adds N*M,
padding adds 0.
`ansor_flops` counts as the Ansor paper's system does: calls are free, comparisons of elements are not.
"""

from __future__ import annotations

import math

from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import ARITHMETIC, COMPARISONS, Binary, Expr, Load, Select, Unary, children
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
    if isinstance(e, Load):
        return 0
    if isinstance(e, Select):
        return _operations(e.cond, kinds, ansor) + max(_operations(c, kinds, ansor) for c in (e.a, e.b))
    own = 0
    if isinstance(e, Binary) and dtype(e.a.dtype).kind in kinds:
        own = int(e.op != "pow" and (e.op in ARITHMETIC or e.op in COMPARISONS) if ansor else e.op in ARITHMETIC)
    elif isinstance(e, Unary) and dtype(e.dtype).kind in kinds:
        own = int(e.op in ("neg", "not") if ansor else e.op != "not")
    return own + sum(_operations(c, kinds, ansor) for c in children(e))
