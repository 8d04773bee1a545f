"""What the products of a stage in groups are made of on a machine, and what that takes: registers, cycles, larger copies."""

from __future__ import annotations

import math

from tensorsmith.backends.cpu.instructions import bf16_dots, dot, dots, kind, matrix, moved, pairs, small_dots
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import variables
from tensorsmith.lang.workload import Stage
from tensorsmith.program.grouping import factors, group_axis, group_steps
from tensorsmith.space.sketch.rewrite import Widen

_USES = 4  # of a byte, from which on it is stored as i16


def groups_pay(target: CpuTarget, stage: Stage) -> bool:
    """Whether the machine has anything for the products of a stage in groups; else they are made one by one, in i32 or f32."""
    both = factors(stage)
    if both is None:
        return False
    found = {"bf16": bf16_dots, Widen.TYPE: pairs}.get(both[0].dtype, lambda t: (*dots(t), *pairs(t)))(target)
    return any(i.lanes == target.lanes(4) for i in found)


def group_size(target: CpuTarget, stage: Stage) -> int | None:
    """Steps of a group where they are more than 32 bits have room for: where the machine multiplies two rows by two columns, and
    there are two rows."""
    steps, lane = group_steps(stage), stage.axes[-1].name if stage.axes else ""
    both, axis = factors(stage), group_axis(stage)
    assert both is not None and axis is not None
    columns = next((e for e in both if lane in variables(e)), None)
    rows = [a for a in stage.axes if a.extent > 1 and columns is not None and a.name not in variables(columns)]
    found = matrix(target, target.lanes(4), *_kinds(stage))
    return 2 * steps if found is not None and rows and axis.extent > steps and stage.axes[-1].extent >= found.lanes else None


def widens(target: CpuTarget, stage: Stage) -> bool:
    """Whether the bytes that a stage multiplies are better stored as i16: where the machine has nothing but pairs for them, and
    each is used so often that the larger copy pays."""
    if not _of_bytes(stage) or group_axis(stage) is None or not groups_pay(target, stage):
        return False
    if dots(target) or _as_bytes(target, stage):
        return False
    used = [math.prod(a.extent for a in stage.axes if a.name not in variables(x)) for x in stage.reads]
    return min(used) >= _USES


def unpacks_pairs(target: CpuTarget, stage: Stage) -> bool:
    """Whether a stage in groups makes pairs of bytes in registers, in every step again."""
    return _of_bytes(stage) and not dots(target) and not _as_bytes(target, stage)


def _of_bytes(stage: Stage) -> bool:
    both = factors(stage)
    return both is not None and dtype(both[0].dtype).bytes == 1


def operand_registers(target: CpuTarget, stage: Stage) -> tuple[int, int]:
    """Registers that the factors of a sum in groups take while a step of it runs: for each vector, and besides."""
    lanes, (one, other) = target.lanes(4), _kinds(stage)
    if group_size(target, stage):
        return 2, 6  # twice as much of every vector; two rows together, and rows that LLVM loads early
    if one == Widen.TYPE:
        # a pair in all lanes, and a product before it is added; SSE multiplies in place of a factor
        return 1, 2 if target.has("avx") else 3
    besides = 1 if target.is_x86 else 4  # rows that LLVM loads early
    if _small(target, stage):
        # products on their way to the sum, and ones; SSE multiplies in place of a factor, and of many LLVM likes one to be free
        besides = 5 if not target.has("avx") else 3 if target.vector_registers <= 16 else 4
    if dot(target, lanes, one, other) is not None:
        return 1, besides
    if dots(target) or _as_bytes(target, stage):  # the bytes of rows are moved; every vector has a sum besides
        return 2, besides + 1
    return 2, 5  # even and odd bytes of both factors, a mask, and products before they are added


def pair_cycles(target: CpuTarget, stage: Stage, rows: int, vectors: int) -> float | None:
    """Cycles of one step of a tile in pairs of i16, or in pairs of rows; None where the products are made in another way.

    Of bytes: for each result two products and two sums, for each row its bytes in every lane and their two halves, for each vector
    its bytes and three operations for its halves; four of all these in a cycle. Of what is stored as i16: a product and a sum for
    each result, four of these in a cycle, while the operands are loaded; the rest is for loads that come late, and for the loop. Of
    small bytes twice as many, and a sum for both.
    """
    one, _ = _kinds(stage)
    if group_size(target, stage):  # a row without a partner is multiplied in halves
        return (rows // 2 + 2 * (rows % 2)) * 2 * vectors / target.fmas_per_cycle + 0.05 * (rows + vectors) + 0.3
    if one == Widen.TYPE or _small(target, stage):
        return rows * vectors / (2 if one == Widen.TYPE else 1) + 0.05 * (rows + vectors) + 0.3
    return (4 * rows * vectors + 3 * rows + 4 * vectors) / 4 if unpacks_pairs(target, stage) else None


def _small(target: CpuTarget, stage: Stage) -> bool:
    """Whether products of small bytes are added up in 16 bits first."""
    return _of_bytes(stage) and bool(small_dots(target)) and _as_bytes(target, stage)


def _kinds(stage: Stage) -> tuple[str, str]:
    """Of the factors of a stage that is in groups, that of the rows first."""
    both = factors(stage)
    assert both is not None
    lane = stage.axes[-1].name if stage.axes else ""
    one, other = sorted(both, key=lambda e: lane in variables(e))
    return kind(one), kind(other)


def _as_bytes(target: CpuTarget, stage: Stage) -> bool:
    """Whether the machine multiplies the bytes of a stage as they are, or moved."""
    one, other = _kinds(stage)
    lanes = target.lanes(4)
    return dot(target, lanes, one, other) is not None or moved(target, lanes, one, other) is not None
