"""The JSON form of expressions: nested lists, the node kind first. Parts that are used again, and would make the lists too long,
stand in a list before.

    {"body": ["add", ["load", "A", "f32", ["var", "i"]], ["const", 1.0, "f32"]]}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import canonical, dtype
from tensorsmith.lang.expr import (
    ARITHMETIC,
    BITS,
    COMPARISONS,
    LOGIC,
    UNARY,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    binary,
    bitcast,
    parts,
    unary,
    wrap,
)


def body_to_json(body: Expr) -> dict[str, Any]:
    """A stage's body, and its parts where there are some."""
    places: dict[Expr, int] = {}
    written = []
    for part in parts(body):
        written.append(expr_to_json(part, places))
        places[part] = len(places)
    return {**({"parts": written} if written else {}), "body": expr_to_json(body, places)}


def body_from_json(data: Mapping[str, Any]) -> Expr:
    """The inverse of `body_to_json`."""
    known: list[Expr] = []
    for part in data.get("parts", []):
        known.append(expr_from_json(part, known))
    return expr_from_json(data["body"], known)


def expr_to_json(e: Expr, places: Mapping[Expr, int] = MappingProxyType({})) -> Any:
    """Nested lists, the node kind first; for a part of an expression its place in the list of them."""
    if e in places:
        return ["part", places[e]]
    if isinstance(e, Const):
        value = e.value if not isinstance(e.value, float) or math.isfinite(e.value) else repr(e.value)
        return ["const", value, e.dtype]
    if isinstance(e, Var):
        return ["var", e.name]
    if isinstance(e, Load):
        return ["load", e.tensor, e.dtype, *(expr_to_json(i, places) for i in e.indices)]
    if isinstance(e, Cast):
        return ["cast", e.dtype, expr_to_json(e.a, places)]
    if isinstance(e, Bitcast):
        return ["bitcast", e.dtype, expr_to_json(e.a, places)]
    if isinstance(e, Select):
        return ["select", *(expr_to_json(c, places) for c in e.operands)]
    if isinstance(e, (Unary, Binary)):
        return [e.op, *(expr_to_json(c, places) for c in e.operands)]
    raise UserError(f"a {type(e).__name__} cannot stand inside a stage's body")


def whole(value: Any) -> int:
    """A number of a JSON form that has to be an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"malformed workload: {value!r} is not a whole number")
    return value


def expr_from_json(data: Any, known: Sequence[Expr] = ()) -> Expr:
    """The inverse of `expr_to_json`, re-checking types; `known` are the parts so far."""
    kind, *rest = data
    if kind == "part":
        place = whole(rest[0])
        if not 0 <= place < len(known):
            raise UserError(f"malformed workload: part {place} of {len(known)}")
        return known[place]
    if kind == "const":
        value, name = rest
        name = canonical(name)
        if dtype(name).kind == "f":
            return Const(float(value), name)
        return Const(bool(value), name) if name == "bool" else wrap(whole(value), name)
    if kind == "var":
        return Var(str(rest[0]))
    if kind == "load":
        return Load(str(rest[0]), tuple(expr_from_json(i, known) for i in rest[2:]), canonical(rest[1]))
    if kind == "cast":
        return Cast(canonical(rest[0]), expr_from_json(rest[1], known))
    if kind == "bitcast":
        return bitcast(canonical(rest[0]), expr_from_json(rest[1], known))
    operands = [expr_from_json(r, known) for r in rest]
    if kind == "select":
        cond, a, b = operands
        if cond.dtype != "bool" or a.dtype != b.dtype:
            raise UserError(f"select of {cond.dtype}, {a.dtype}, {b.dtype}")
        return Select(cond, a, b)
    if kind in UNARY and len(operands) == 1:
        return unary(kind, operands[0])
    if kind in (*ARITHMETIC, *COMPARISONS, *LOGIC, *BITS) and len(operands) == 2:
        return binary(kind, *operands)
    raise UserError(f"unknown expression {kind!r}")
