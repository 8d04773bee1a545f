"""Halide's tilings of a loop nest (spec: baselines.md, section 3.1): how often the outer loops run, for inner ones that are powers
of two, or three.

    tilings([8])        [4], [2], [3]
"""

from __future__ import annotations

from collections.abc import Sequence

_MANY = 100  # tilings, from which on the steps get coarser
_WASTE = (8, 7)  # of the extent: more points than that are too many


def tilings(extents: Sequence[int], factor: int = 2, splits: bool = True) -> list[tuple[int, ...]]:
    """The outer sizes, but for all of them 1 and all of them whole. Without `splits`, each is 1 or whole."""
    found: list[tuple[int, ...]] = [()]
    for d, extent in enumerate(extents):
        last = d == len(extents) - 1
        while len(found) > factor * _MANY:
            factor *= 2
        longer: list[tuple[int, ...]] = []
        for t in found:
            ones = last and all(x == 1 for x in t)
            whole = last and all(x == s for x, s in zip(t, extents))
            outer = _outer(extent, factor, ones, whole) if splits else _all_or_none(extent, ones, whole)
            longer += [(*t, size) for size in outer]
        found = longer
    return found


def _all_or_none(extent: int, ones: bool, whole: bool) -> list[int]:
    return ([] if ones else [1]) + ([extent] if extent != 1 and not whole else [])


def _outer(extent: int, factor: int, ones: bool, whole: bool) -> list[int]:
    found: list[int] = []
    most = 0  # the largest inner size
    inner = 1
    while inner < extent:
        outer = -(-extent // inner)
        if not ((ones and outer == 1) or (whole and outer == extent)):
            if inner > 1 and _wasteful(inner, outer, extent):
                break
            most = inner
            found.append(outer)
        inner *= factor
    outer = 1
    while outer <= extent:
        inner = -(-extent // outer)
        if not ((ones and outer == 1) or (whole and outer == extent)):
            if (outer > 1 and inner < 2 * most) or _wasteful(inner, outer, extent):
                break
            found.append(outer)
        outer *= factor
    third = -(-extent // 3)  # twelve registers of a matrix product
    if factor == 2 and extent > 3 and 1 < third < extent and not _wasteful(3, third, extent):
        found.append(third)
    return found


def _wasteful(inner: int, outer: int, extent: int) -> bool:
    return inner * outer * _WASTE[1] > extent * _WASTE[0]
