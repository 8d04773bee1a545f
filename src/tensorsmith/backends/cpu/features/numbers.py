"""Numbers of a batch of candidates: a float that all have, or a float64 array with one entry per candidate.

Most numbers of a structure are the same for all its candidates, so nothing is computed where a plain float tells the answer.
Symbols (`symbol.py`) stand in for arrays when a structure is looked at without its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from tensorsmith.program.flags import Flag
from tensorsmith.program.linear import Num as Integer

Array = np.ndarray[Any, np.dtype[Any]]
Num: TypeAlias = float | Array


def number(value: Integer | float) -> Num:
    """An integer or an array of them as float64."""
    return float(value) if isinstance(value, (int, float, np.generic)) else value.astype(np.float64)


def as_number(a: Flag) -> Num:
    """1 where a condition holds, else 0."""
    return float(a) if isinstance(a, bool) else a.astype(np.float64)


def magnitude(a: Num) -> Num:
    found: Any = abs(a)
    return found


def times(a: Num, b: Num) -> Num:
    """a * b; nothing is computed where one of them is the number 1."""
    if isinstance(a, float) and a == 1.0:
        return b
    if isinstance(b, float) and b == 1.0:
        return a
    return a * b


def total(values: Iterable[Num]) -> Num:
    found: Num = 0.0
    for v in values:
        found = found + v
    return found


def product(values: Iterable[Num]) -> Num:
    found: Num = 1.0
    for v in values:
        found = times(found, v)
    return found
