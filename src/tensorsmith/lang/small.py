"""Small weights: bytes of seven bits, of which two products with any bytes add up in 16.

    small(w)    select(-64 <= w & w <= 63, w, 0)

Some machines add two products of bytes in 16 bits, and saturate (`vpmaddubsw`). A definition that multiplies by `small(w)` proves
that there is nothing to saturate, whatever w is: 255 * -64 twice is -32640. What is not small counts as zero; whoever writes it of
constants has looked at them.
"""

from __future__ import annotations

import numpy as np

from tensorsmith.lang.dtypes import Array, dtype
from tensorsmith.lang.expr import Binary, Const, Expr, Load, Select

LOW, HIGH = -64, 63


def small(e: Expr) -> Expr:
    """A byte with a sign if it is small, else 0."""
    return Select((e >= LOW) & (e <= HIGH), e, Const(0, e.dtype))


def small_load(e: Expr) -> Load | None:
    """What is read there, where an expression is `small` of that; None where it is something else."""
    found = e.a if isinstance(e, Select) else None
    return found if isinstance(found, Load) and found.dtype == "i8" and small(found).key == e.key else None


def most(e: Expr) -> int:
    """The largest number that an integer without a sign can be, as far as its bits say: half a byte is at most 15."""
    limit = (1 << 8 * dtype(e.dtype).bytes) - 1
    if isinstance(e, Const):
        return int(e.value)
    if not isinstance(e, Binary) or e.op not in ("bitand", "bitor", "shl"):
        return limit
    a, b = most(e.a), most(e.b)
    if e.op == "bitand":
        return min(a, b)
    if e.op == "bitor":
        return (1 << (a | b).bit_length()) - 1
    return min(a << b, limit) if isinstance(e.b, Const) else limit


def are_small(array: Array) -> bool:
    """Whether numbers are small, all of them."""
    return bool(array.min(initial=0) >= LOW and array.max(initial=0) <= HIGH)


def kept_if_small(array: Array) -> Array:
    """`small` of every element."""
    return np.where((array >= LOW) & (array <= HIGH), array, np.zeros((), array.dtype))
