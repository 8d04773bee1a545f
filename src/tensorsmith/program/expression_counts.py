"""How many operations of each kind a store computes, as TVM counts them: index arithmetic of its loads included.

C[i, j] + A[i.0 * 8 + i.1, k] * B[k, j]     float_addsub 1, float_mul 1, int_mul 1, int_addsub 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import COMPARISONS, Binary, Expr, Select, Unary
from tensorsmith.lang.workload import Stage

Array = np.ndarray[Any, np.dtype[Any]]
Counts = Mapping[str, Array | float]

KINDS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")

_BINARY = {
    "add": "addsub", "sub": "addsub", "mul": "mul", "div": "divmod", "floordiv": "divmod", "mod": "divmod",
    "max": "cmp", "min": "cmp",
}  # fmt: skip
_REDUCTIONS = {"sum": "addsub", "prod": "mul", "max": "cmp", "min": "cmp"}


def counted(stage: Stage, index: Callable[[Expr], tuple[Array, Array]]) -> Counts:
    """By kind, of one execution of a stage's body. `index` gives the multiplications and additions of an affine index.

    Multiply-adds are never found, as in TVM; casts are free, and what is no operator is a pure function. A value that is used again
    is computed once, an index wherever it stands.
    """
    found: dict[str, Array | float] = {}

    def add(kind: str, amount: Array | float = 1.0) -> None:
        found[kind] = found.get(kind, 0.0) + amount

    seen: set[Expr] = set()
    todo = [stage.body]
    while todo:
        e = todo.pop()
        if e.dtype == "i64" and affine(e) is not None:
            factors, terms = index(e)
            add("int_mul", factors)
            add("int_addsub", terms)
        elif e not in seen:
            seen.add(e)
            _one(e, add)
            todo += e.operands
    if stage.reduction:
        add(f"{_type(stage.body)}_{_REDUCTIONS[stage.reduction]}")
    return found


def _one(e: Expr, add: Callable[[str], None]) -> None:
    if isinstance(e, Binary):
        if e.op in ("and", "or"):
            add("bool_op")
        elif e.op in COMPARISONS:
            add(f"{_type(e.a)}_cmp")
        else:
            add(f"{_type(e)}_{_BINARY.get(e.op, 'mathfunc')}")
    elif isinstance(e, Unary):
        add("bool_op" if e.op == "not" else f"{_type(e)}_{'addsub' if e.op == 'neg' else 'mathfunc'}")
    elif isinstance(e, Select):
        add("select_op")


def _type(e: Expr) -> str:
    return "float" if dtype(e.dtype).kind == "f" else "int"
