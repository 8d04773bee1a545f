"""NumPy's functions on expressions: `np.exp(A[i, j])` is `ts.exp(A[i, j])`, as far as the language has the function.

NumPy hands a call of one of its functions over to an argument that has `__array_ufunc__` or `__array_function__`. Without these it
would take an expression for an array of one element, and give that, or complain of a method that is missing.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorsmith.errors import UserError

#: What NumPy calls otherwise.
_NAMES = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "fabs": "abs",
    "rint": "round",
}
_LISTED = "docs/language.md lists the functions of the language"

#: The language's functions by name; `words` fills it in.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "negative": operator.neg,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": operator.invert,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}


def applied(function: Callable[..., Any], method: str, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What NumPy's function, called with an expression among its arguments, is here."""
    name = function.__name__
    word = _NAMES.get(name, name)
    ours = FUNCTIONS.get(word) or _OPERATORS.get(word)
    if method != "__call__" or ours is None:
        asked = name if method == "__call__" else f"{name}.{method}"
        raise UserError(f"np.{asked} knows nothing of expressions, and the language has no function of that name; {_LISTED}")
    given = [_number(name, x) for x in args]
    try:
        inspect.signature(ours).bind(*given, **options)
    except TypeError as problem:
        takes = str(inspect.signature(ours)).partition(" ->")[0]
        raise UserError(f"np.{name} of an expression is ts.{word}{_plain(takes)}: {problem}") from None
    return ours(*given, **options)


def of_tensor(name: str, rank: int, function: Callable[..., Any]) -> UserError:
    """What is wrong with a call of one of NumPy's functions with a whole tensor."""
    axes = ", ".join(f"i{n}" for n in range(rank)) if rank > 3 else ", ".join("ijk"[:rank])
    word = _NAMES.get(function.__name__, function.__name__)
    element = f"{name}[{axes or '()'}]"
    how = f"ts.compute({name}.shape, lambda {axes}: ts.{word}({element}))" if word in FUNCTIONS else element
    return UserError(f"np.{function.__name__} of the tensor {name}: a computation is written of its elements, as in {how}")


def _number(name: str, x: Any) -> Any:
    """One of NumPy's numbers as Python's, which takes the type of the other operand."""
    if isinstance(x, np.ndarray) and x.ndim:
        wanted = f"ts.placeholder({x.shape}, name=...)"
        raise UserError(f"np.{name} of an array of shape {x.shape} and an expression: make it a tensor, {wanted}, and index it")
    return x.item() if isinstance(x, (np.generic, np.ndarray)) else x


def _plain(signature: str) -> str:
    """`(x, low=None)` of `(x: 'ExprLike', low: 'ExprLike | None' = None)`"""
    parts = [part for part in signature.strip("()").split(", ") if part]
    return "(" + ", ".join(part.partition(":")[0] + ("=" + part.split(" = ")[1] if " = " in part else "") for part in parts) + ")"
