"""Linear forms over loop variables whose coefficients may be integers or arrays.

Arrays (one entry per candidate) are what makes the one lowering serve a whole population; hence no coefficient is ever
compared with zero here, unless it is a plain integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

Num = Union[int, "np.ndarray[Any, Any]"]
Number = Union[float, "np.ndarray[Any, Any]"]  # where fractions may be, too


@dataclass(frozen=True)
class Linear:
    """sum(terms[v] * v) + offset."""

    terms: Mapping[str, Num] = field(default_factory=dict)
    offset: Num = 0

    def __add__(self, other: Linear | Num) -> Linear:
        if not isinstance(other, Linear):
            return Linear(self.terms, self.offset + other)
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            total = terms.get(name, 0) + coefficient
            if isinstance(total, int) and total == 0:
                terms.pop(name, None)
            else:
                terms[name] = total
        return Linear(terms, self.offset + other.offset)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.scaled(-1)

    def scaled(self, factor: Num) -> Linear:
        if isinstance(factor, int) and factor == 0:
            return Linear()
        return Linear({n: c * factor for n, c in self.terms.items()}, self.offset * factor)

    def __str__(self) -> str:
        parts = [n if isinstance(c, int) and c == 1 else f"{c}*{n}" for n, c in self.terms.items()]
        if not isinstance(self.offset, int) or self.offset or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts)


def ceil_div(a: Num, b: Num) -> Num:
    return -(-a // b)


def minimum(a: Num, b: Num) -> Num:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def maximum(a: Num, b: Num) -> Num:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)
