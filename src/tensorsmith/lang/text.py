"""Readable text of expressions."""

from __future__ import annotations

from collections.abc import Mapping

from tensorsmith.lang.expr import COMPARISONS, Axis, Binary, Cast, Const, Expr, Load, Reduce, Select, Unary, Var, parts

_INFIX = {
    "or": ("|", 1), "and": ("&", 2), "lt": ("<", 3), "le": ("<=", 3), "eq": ("==", 3), "ne": ("!=", 3),
    "add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5), "floordiv": ("//", 5), "mod": ("%", 5),
}  # fmt: skip


def show(e: Expr) -> str:
    """`e` as one line; parentheses only where the precedence asks for them. Where that would be too long, with names for parts.

    t2 + t2 where t1 = A[i] + 1.0; t2 = t1 * t1
    """
    names: dict[Expr, str] = {}
    named = []
    for part in parts(e):
        text = _show(part, names)
        names[part] = f"t{len(names) + 1}"
        named.append(f"{names[part]} = {text}")
    return f"{_show(e, names)}{' where ' if named else ''}{'; '.join(named)}"


def _show(e: Expr, names: Mapping[Expr, str], level: int = 0) -> str:
    if e in names:
        return names[e]
    if isinstance(e, Const):
        return repr(e.value)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Load):
        return f"{e.tensor}[{', '.join(_show(i, names) for i in e.indices)}]"
    if isinstance(e, Cast):
        return f"{e.dtype}({_show(e.a, names)})"
    if isinstance(e, Select):
        return f"select({_show(e.cond, names)}, {_show(e.a, names)}, {_show(e.b, names)})"
    if isinstance(e, Reduce):
        return f"{e.op}({_show(e.source, names)}, over {axes_text(e.axes)})"
    if isinstance(e, Unary):
        if e.op == "neg":
            return f"-{_show(e.a, names, 6)}"
        return f"{e.op}({_show(e.a, names)})"
    assert isinstance(e, Binary)
    if e.op not in _INFIX:
        return f"{e.op}({_show(e.a, names)}, {_show(e.b, names)})"
    symbol, own = _INFIX[e.op]
    chained = own + (e.op in COMPARISONS)  # `a < b == c` would read as two comparisons of b
    text = f"{_show(e.a, names, chained)} {symbol} {_show(e.b, names, own + 1)}"
    return f"({text})" if own < level else text


def axes_text(axes: tuple[Axis, ...]) -> str:
    """`i<512, j<512`"""
    return ", ".join(f"{a.name}<{a.extent}" for a in axes)
