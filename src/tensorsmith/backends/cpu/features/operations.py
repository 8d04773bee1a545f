"""What a statement computes per point: operations by kind, and conditions by where they change."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tensorsmith.lang.affine import Affine, affine, conjuncts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import COMPARISONS, Binary, Cast, Expr, Load, Select, Unary, joined, walk
from tensorsmith.lang.workload import Stage

KINDS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")

_BINARY = {
    "add": "addsub", "sub": "addsub", "mul": "mul", "div": "divmod", "floordiv": "divmod", "mod": "divmod",
    "max": "cmp", "min": "cmp", "pow": "mathfunc",
    "bitand": "addsub", "bitor": "addsub", "bitxor": "addsub", "shl": "addsub", "shr": "addsub",
}  # fmt: skip
_REDUCTIONS = {"sum": "addsub", "prod": "mul", "max": "cmp", "min": "cmp"}
_CHEAP = ("neg", "abs", "floor", "ceil", "round", "sqrt", "rsqrt")


@functools.lru_cache(maxsize=4096)
def operations(stage: Stage, grouped: int = 0) -> Mapping[str, float]:
    """Operations per point by feature name (`float_mad`, ..., `bool_op`, `select_op`); a value used again is computed once.

    Affine index arithmetic is free: the code generator keeps it in running pointers. So are selects on affine conditions
    (padding): most points never test them. Those that do are counted by `conditions`.
    """
    counts: dict[str, float] = {f"{t}_{k}": 0.0 for t in ("float", "int") for k in KINDS} | {"bool_op": 0.0, "select_op": 0.0}
    body = stage.body
    if grouped:  # one instruction for all points of a group of so many steps, factors as they are
        counts[f"{_type(body)}_mad"] += 1 / grouped
        return counts
    if stage.reduction == "sum" and isinstance(body, Binary) and body.op == "mul":
        counts[f"{_type(body)}_mad"] += 1
        counted: set[Expr] = set()
        _count(body.a, counts, counted)
        _count(body.b, counts, counted)
        return counts
    _count(body, counts, set())
    if stage.reduction:
        counts[f"{_type(body)}_{_REDUCTIONS[stage.reduction]}"] += 1
    return counts


def _type(e: Expr) -> str:
    return "float" if dtype(e.dtype).kind == "f" else "int"


def _count(e: Expr, counts: dict[str, float], counted: set[Expr]) -> None:
    if e in counted or (e.dtype == "i64" and affine(e) is not None):
        return
    counted.add(e)
    if isinstance(e, Binary):
        if e.op in ("and", "or"):
            counts["bool_op"] += 1
        elif e.op in COMPARISONS:
            counts[f"{_type(e.a)}_cmp"] += 1
        else:
            counts[f"{_type(e)}_{_BINARY[e.op]}"] += 1
    elif isinstance(e, Unary):
        if e.op == "not":
            counts["bool_op"] += 1
        else:
            counts[f"{_type(e)}_{'otherfunc' if e.op in _CHEAP else 'mathfunc'}"] += 1
    elif isinstance(e, Cast):
        counts[f"{_type(e)}_otherfunc"] += 1
    elif isinstance(e, Select):
        if _is_affine(e.cond):
            _count(e.a, counts, counted)
            _count(e.b, counts, counted)
            return
        counts["select_op"] += 1
    for c in e.operands:
        if not (isinstance(e, Load) and affine(c) is not None):
            _count(c, counts, counted)


def _is_affine(cond: Expr) -> bool:
    """Whether a condition is a conjunction of affine inequalities."""
    return all(
        isinstance(e, Binary)
        and e.op in ("lt", "le", "eq")
        and e.a.dtype == "i64"
        and affine(e.a) is not None
        and affine(e.b) is not None
        for e in joined(cond, "and")
    )


@functools.lru_cache(maxsize=4096)
def conditions(stage: Stage) -> tuple[Affine, ...]:
    """The affine facts that the selects of a stage's body test."""
    return tuple(fact for e in walk(stage.body) if isinstance(e, Select) for fact in conjuncts(e.cond))
