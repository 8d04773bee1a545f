"""The row-major position of an element: the same memory may be told of under several shapes."""

from __future__ import annotations

import math

from tensorsmith.lang.affine import affine
from tensorsmith.lang.expr import Binary, Expr, Load, same
from tensorsmith.lang.workload import Stage


def reads_in_order(stage: Stage, load: Load, shape: tuple[int, ...]) -> bool:
    """Whether a stage reads the elements of a tensor of this shape in the very order of its own, all of them, each once."""
    form, want = flat_offset(load.indices, shape), flat_offset(tuple(stage.axes), stage.shape)
    if form is None or want is None or math.prod(shape) != math.prod(stage.shape):
        return False
    trivial = {a.name for a in stage.axes if a.extent == 1}
    return {k: v for k, v in form.items() if k not in trivial} == {k: v for k, v in want.items() if k not in trivial}


def flat_offset(indices: tuple[Expr, ...], shape: tuple[int, ...]) -> dict[str, int] | None:
    """The row-major position of an element, linear in variables; sees that (e // m) * m + e % m is e. "" is the constant."""
    pieces: list[tuple[Expr, int]] = []
    stride = 1
    for index, extent in zip(reversed(indices), reversed(shape)):
        pieces.append((index, stride))
        stride *= extent
    merged: list[tuple[Expr, int]] = []
    for index, step in pieces:  # innermost first: a remainder is followed by its quotient
        if merged and _is(index, "floordiv") and _is(merged[-1][0], "mod"):
            inner, inner_step = merged[-1]
            assert isinstance(index, Binary) and isinstance(inner, Binary)
            divisor = affine(index.b)
            if same(index.a, inner.a) and same(index.b, inner.b) and divisor is not None and not divisor.terms:
                if step == inner_step * divisor.offset:
                    merged[-1] = (index.a, inner_step)
                    continue
        merged.append((index, step))
    total: dict[str, int] = {"": 0}
    for index, step in merged:
        form = affine(index)
        if form is None:
            return None
        total[""] += form.offset * step
        for name, coefficient in form.terms.items():
            total[name] = total.get(name, 0) + coefficient * step
    return total


def _is(e: Expr, op: str) -> bool:
    return isinstance(e, Binary) and e.op == op
