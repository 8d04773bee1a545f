"""Products of small numbers in groups: which sums they are, along which axis, and how many lanes their readers have.

    C[i, j] = sum(i32(A[i, k]) * i32(B[k, j]), over k)        A and B of i8 or u8, or both of i16
    C[i, j] = sum(f32(A[i, k]) * f32(B[k, j]), over k)        A and B of bf16

Machines multiply four bytes by four bytes, or two i16 or bf16 by two, and add the products up in one lane of 32 bits. Such a sum
runs through one of its reduction axes in *groups* of four steps, or two: the last loop of that axis is the group (`Nest(...,
group="k.1")`), of so many steps, and a packed operand has the factors of a lane side by side. Where two rows are multiplied by two
columns, groups have twice as many steps, which is a part of the structure (`k.1=8`). What the sum is does not change: integers are
added in any order, and wrap around alike; products of bf16 are exact in f32, and a sum of f32 has no order either.
"""

from __future__ import annotations

import functools

from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Cast, Expr, loads, variables
from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.space.analysis import elementwise_match

_LANE_BYTES = 4  # of the lane that takes a group at once
_FACTORS = {"i32": ("i8", "u8", "i16"), "f32": ("bf16",)}  # that may be multiplied in groups, by the type of the sum


@functools.lru_cache(maxsize=4096)
def factors(stage: Stage) -> tuple[Expr, Expr] | None:
    """The two factors, bytes, i16 or bf16, of a stage that sums up their products in 32 bits; None if it is no such sum."""
    body, kinds = stage.body, _FACTORS.get(stage.dtype, ())
    if stage.reduction != "sum" or not kinds or not isinstance(body, Binary) or body.op != "mul":
        return None
    found = [e.a for e in (body.a, body.b) if isinstance(e, Cast) and e.dtype == stage.dtype and e.a.dtype in kinds]
    if len(found) < 2 or dtype(found[0].dtype).bytes != dtype(found[1].dtype).bytes:
        return None
    return found[0], found[1]


def group_steps(stage: Stage, given: int | None = None) -> int:
    """Steps of a reduction that one lane takes at once, in a sum of products of small numbers: as many as it has room for, or so
    many as a nest says."""
    both = factors(stage)
    assert both is not None
    return given or _LANE_BYTES // dtype(both[0].dtype).bytes


@functools.lru_cache(maxsize=4096)
def group_axis(stage: Stage) -> Axis | None:
    """The reduction axis to go through in groups: along which neighbours of an operand that rows have lie side by side.

    None where there is none: in a depthwise convolution neighbours are other channels, each a sum of its own.
    """
    both = factors(stage)
    if both is None:
        return None
    lane = stage.axes[-1].name if stage.axes else ""
    rows = [x for e in both if lane not in variables(e) for x in loads(e)]
    for axis in reversed(stage.reduce_axes):
        for x in rows:
            form = affine(x.indices[-1]) if x.indices else None
            if axis.extent > 1 and form is not None and form.terms.get(axis.name) == 1:
                return axis
    return None


def lane_bytes(workload: Workload, stage: Stage) -> int:
    """The bytes of the elements that a stage's vectors are counted in: its own, or those of a wider sum that it reads element by
    element, so that it can be computed on the sum's registers (sums of products in i32 that become bytes again)."""
    own = dtype(stage.dtype).lane_bytes
    read = [workload.stage(x.tensor) for x in stage.reads if workload.is_stage(x.tensor)] if stage.reduction is None else []
    sums = [s for s in read if s.reduction and dtype(s.dtype).lane_bytes > own and elementwise_match(workload, s.name, stage.name)]
    return max([own, *(dtype(s.dtype).lane_bytes for s in sums)])
