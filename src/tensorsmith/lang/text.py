"""Readable text of expressions."""

from __future__ import annotations

from tensorsmith.lang.expr import COMPARISONS, Axis, Binary, Cast, Const, Expr, Load, Reduce, Select, Unary, Var

_INFIX = {
    "or": ("|", 1), "and": ("&", 2), "lt": ("<", 3), "le": ("<=", 3), "eq": ("==", 3), "ne": ("!=", 3),
    "add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5), "floordiv": ("//", 5), "mod": ("%", 5),
}  # fmt: skip


def show(e: Expr, level: int = 0) -> str:
    """`e` as one line; parentheses only where the precedence asks for them."""
    if isinstance(e, Const):
        return repr(e.value)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Load):
        return f"{e.tensor}[{', '.join(show(i) for i in e.indices)}]"
    if isinstance(e, Cast):
        return f"{e.dtype}({show(e.a)})"
    if isinstance(e, Select):
        return f"select({show(e.cond)}, {show(e.a)}, {show(e.b)})"
    if isinstance(e, Reduce):
        return f"{e.op}({show(e.source)}, over {axes_text(e.axes)})"
    if isinstance(e, Unary):
        if e.op == "neg":
            return f"-{show(e.a, 6)}"
        return f"{e.op}({show(e.a)})"
    assert isinstance(e, Binary)
    if e.op not in _INFIX:
        return f"{e.op}({show(e.a)}, {show(e.b)})"
    symbol, own = _INFIX[e.op]
    chained = own + (e.op in COMPARISONS)  # `a < b == c` would read as two comparisons of b
    text = f"{show(e.a, chained)} {symbol} {show(e.b, own + 1)}"
    return f"({text})" if own < level else text


def axes_text(axes: tuple[Axis, ...]) -> str:
    """`i<512, j<512`"""
    return ", ".join(f"{a.name}<{a.extent}" for a in axes)
