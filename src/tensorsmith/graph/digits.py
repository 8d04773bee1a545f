"""How the numbers along an axis correspond at two sizes of an open dimension, where the axis is made of several dimensions.

    [6, n, 32] -> [6 * n, 32]       row l * n + i: at n = 3 row 4 is (1, 1), at n = 8 that is row 9

An axis has *digits*: the extents of the dimensions it is made of, outermost first, each at both sizes. Numbers that have the same
digits correspond. Where nothing is outside of what is open (n * 6 + l) a number corresponds to itself: the axis is *plain*, None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Factor = tuple[int, int]  # an extent at the small size, and at the large one
Digits = tuple[Factor, ...] | None
Maps = tuple[Digits, ...]  # of the axes of a tensor


def sizes(digits: Digits) -> Factor | None:
    """The extents of an axis with those digits."""
    return None if digits is None else (math.prod(s for s, _ in digits), math.prod(l for _, l in digits))


def regrouped(maps: Maps, old: tuple[Sequence[int], Sequence[int]], new: tuple[Sequence[int], Sequence[int]]) -> Maps | None:
    """The digits of a reshape's axes: those of its operand, in the same order, in other groups; None where they do not fit.

    `old` and `new` are shapes at the small and the large size.
    """
    if any(0 in shape for shape in (*old, *new)):
        return None
    left = [f for digits, s, l in zip(maps, *old) for f in (_plain(s, l) if digits is None else digits)]
    found: list[Digits] = []
    for small, large in zip(*new):
        mine: list[Factor] = []
        while (small, large) != (1, 1):
            if not left:
                return None
            s, l = left[0]
            if small % s == 0 and large % l == 0:
                mine.append(left.pop(0))
                small, large = small // s, large // l
            elif s == l and small == large and s % small == 0:  # the outer part of a fixed one
                mine.append((small, small))
                left[0] = (s // small, s // small)
                small = large = 1
            else:
                return None
        found.append(_normal(mine))
    return tuple(found) if all(f == (1, 1) for f in left) else None


def _plain(small: int, large: int) -> list[Factor]:
    """Digits of an axis on which every number corresponds to itself: what differs is outside."""
    common = math.gcd(small, large)
    return [(small // common, large // common), (common, common)]


def _normal(factors: Sequence[Factor]) -> Digits:
    """The one form of digits that correspond in the same way; None if each number corresponds to itself."""
    found: list[Factor] = []
    for small, large in factors:
        for s, l in _plain(small, large):
            if (s, l) == (1, 1):
                continue
            if s == l and found and found[-1][0] == found[-1][1]:
                found[-1] = (found[-1][0] * s, found[-1][1] * l)
            else:
                found.append((s, l))
    open_ones = [n for n, (s, l) in enumerate(found) if s != l]
    return None if not open_ones or open_ones == [0] else tuple(found)
