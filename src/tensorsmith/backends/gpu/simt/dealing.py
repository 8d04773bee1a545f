"""Loops as numbers of threads or blocks: which step of each belongs to a number, and steps dealt out to the threads of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorsmith.backends.gpu.simt import ir
from tensorsmith.backends.gpu.simt.ir import For, If, Let, Statement
from tensorsmith.backends.gpu.simt.values import number
from tensorsmith.lang.expr import Binary, Expr, Var
from tensorsmith.program.ir import LoopVar


def steps_of(whole: Expr, loops: Sequence[LoopVar]) -> list[Statement]:
    """The steps of loops that are fused to one number, the last the fastest."""
    found: list[Statement] = []
    stride, total = 1, math.prod(int(v.count) for v in loops)
    for v in reversed(loops):
        count = int(v.count)
        if count > 1:
            value = whole if stride == 1 else Binary("floordiv", whole, number(stride))
            value = value if stride * count == total else Binary("mod", value, number(count))
            found.append(Let(v.name, value, count))
        stride *= count
    return found


def dealt(
    threads: int, total: int, loops: Sequence[LoopVar], body: Sequence[Statement], name: str, run: int = 1
) -> list[Statement]:
    """Steps dealt out: the first thread gets the first, or as many of the first as a `run` has, the second the next, round by
    round."""
    rounds = -(-total // (threads * run))
    turn, own = f"{name}.round", f"{name}.own"
    step: Expr = ir.THREAD
    if rounds > 1:
        step = Binary("add", Binary("mul", Var(turn), number(threads)), ir.THREAD)
    if run > 1:
        step = Binary("add", Binary("mul", step, number(run)), Var(own))
    inside: list[Statement] = [*steps_of(Var(name), loops), *body]
    if total % (threads * run):
        inside = [If(Binary("lt", Var(name), number(total)), tuple(inside))]
    inside = [Let(name, step, rounds * threads * run), *inside]
    if run > 1:
        inside = [For(own, run, tuple(inside), 1)]
    return [For(turn, rounds, tuple(inside), 1)] if rounds > 1 else inside
