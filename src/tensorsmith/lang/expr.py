"""Expressions: the nodes (`nodes`), the ways through them (`visit`), and what is made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from tensorsmith.lang.nodes import (
    ARITHMETIC,
    BITS,
    COMPARISONS,
    EXPENSIVE,
    FLOAT_FUNCTIONS,
    LOGIC,
    REDUCTIONS,
    UNARY,
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    ExprLike,
    Load,
    Reduce,
    Scalar,
    Select,
    Unary,
    Var,
    binary,
    bitcast,
    shift,
    unary,
    wrap,
)
from tensorsmith.lang.visit import depth, operands_first, parts, shared, uses, walk, written_out

__all__ = [
    "ARITHMETIC",
    "BITS",
    "COMPARISONS",
    "EXPENSIVE",
    "FLOAT_FUNCTIONS",
    "LOGIC",
    "REDUCTIONS",
    "UNARY",
    "Axis",
    "Binary",
    "Bitcast",
    "Cast",
    "Const",
    "Expr",
    "ExprLike",
    "Load",
    "Reduce",
    "Scalar",
    "Select",
    "Unary",
    "Var",
    "binary",
    "bitcast",
    "depth",
    "joined",
    "loads",
    "operands_first",
    "parts",
    "same",
    "shared",
    "shift",
    "substitute",
    "transform",
    "unary",
    "uses",
    "variables",
    "walk",
    "wrap",
    "written_out",
]


def same(a: Expr | Iterable[Expr], b: Expr | Iterable[Expr]) -> bool:
    """Whether two expressions, or two rows of them, are the same programs: equal nodes are one object."""
    left, right = ((e,) if isinstance(e, Expr) else tuple(e) for e in (a, b))
    return len(left) == len(right) and all(map(operator.is_, left, right))


def transform(e: Expr, f: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrites top down: what `f` gives replaces the node; where it gives None the operands are visited."""
    new: dict[Expr, Expr] = {}
    todo = [(e, False)]
    while todo:
        x, visited = todo.pop()  # visited: its operands are in `new`
        if x in new:
            continue
        old = x.operands
        if visited:
            changed = tuple(new[c] for c in old)
            new[x] = x if all(map(operator.is_, changed, old)) else x.with_operands(changed)
            continue
        replaced = f(x)
        if replaced is not None:
            new[x] = replaced
        else:
            todo.append((x, True))
            todo.extend((c, False) for c in reversed(old))
    return new[e]


def substitute(e: Expr, values: dict[str, Expr]) -> Expr:
    """`e` with variables replaced by name."""
    return transform(e, lambda x: values.get(x.name, x) if isinstance(x, Var) else None)


def joined(e: Expr, op: str) -> list[Expr]:
    """What `op` joins: a, b and c of (a & b) & c, each once."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    todo = [e]
    while todo:
        x = todo.pop()
        if not isinstance(x, Binary) or x.op != op:
            found[x] = None
        elif x not in seen:
            seen.add(x)
            todo.extend((x.b, x.a))
    return list(found)


def loads(e: Expr) -> list[Load]:
    """Every load in `e`, those inside indices too."""
    return [x for x in walk(e) if isinstance(x, Load)]


def variables(e: Expr) -> set[str]:
    """The names of the variables in `e`."""
    return {x.name for x in walk(e) if isinstance(x, Var)}
