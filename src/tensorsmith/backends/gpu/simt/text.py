"""Kernels as readable text."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.backends.gpu.simt.ir import (
    PRIVATE,
    Array,
    Barrier,
    For,
    If,
    Kernel,
    Let,
    Meet,
    Move,
    Multiply,
    Row,
    Statement,
    Wait,
)
from tensorsmith.lang.expr import Expr
from tensorsmith.lang.text import show as show_expr


def show(kernel: Kernel) -> str:
    """One line for each array and statement."""
    lines = [f"kernel {kernel.name}: {kernel.grid} blocks of {kernel.block} threads"]
    lines += [f"  {_array(a)}" for a in kernel.arrays]
    return "\n".join(lines + _body(kernel.body, 1))


def _array(a: Array) -> str:
    words = "registers" if a.scope == PRIVATE else a.scope
    return f"{words} {a.name}: {a.dtype}[{a.elements}]"


def _body(body: Sequence[Statement], indent: int) -> list[str]:
    pad, lines = "  " * indent, []
    for s in body:
        if isinstance(s, For):
            row = f" by {s.in_a_row}" if s.in_a_row > 1 else ""
            lines += [f"{pad}for {s.name} < {s.count}{row}:", *_body(s.body, indent + 1)]
        elif isinstance(s, If):
            lines += [f"{pad}if {show_expr(s.condition)}:", *_body(s.body, indent + 1)]
        elif isinstance(s, Let):
            lines.append(f"{pad}{s.name} = {show_expr(s.value)}")
        elif isinstance(s, Barrier):
            lines.append(f"{pad}barrier")
        elif isinstance(s, Move):
            apart = ", apart" if s.apart else ""
            lines.append(f"{pad}{s.array}[{show_expr(s.index)}] = {s.source}[{show_expr(s.start)}], {s.width} elements{apart}")
        elif isinstance(s, (Wait, Meet)):
            lines.append(f"{pad}{'wait' if isinstance(s, Wait) else 'lanes meet'}")
        elif isinstance(s, Multiply):
            sums, left, right = (", ".join(map(show_expr, part)) for part in (s.sums, s.left, s.right))
            rows = [f", {_row(x)}" for x in (s.left_row, s.right_row) if x is not None]
            lines.append(f"{pad}{s.array}[{sums}] += ({left}) by warps with ({right}){''.join(rows)}")
        else:
            lines.append(f"{pad}{s.array}[{show_expr(s.index)}] = {show_expr(s.value)}")
    return lines


def _row(row: Row) -> str:
    first: Expr = row.first
    return f"rows{' across' if row.across else ''} at {show_expr(first)}"
