"""Affine forms of integer expressions and the ranges they take.

    affine(h * 2 + kh - 1)  ->  Affine({"h": 2, "kh": 1}, -1)

`Bounds` says which values an index can take given the extents of the axes and the conditions of the selects around it;
it proves loads in bounds, and tells the lowering which region of a producer is needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tensorsmith.lang.expr import Binary, Cast, Const, Expr, Select, Unary, Var, joined, written_out

_LARGEST_INDEX = 1000  # nodes written out: of a larger index nothing is known, as if it came from data


@dataclass(frozen=True)
class Affine:
    """sum(terms[v] * v) + offset, terms without zeros."""

    terms: Mapping[str, int] = field(default_factory=dict)
    offset: int = 0

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            total = terms.get(name, 0) + coefficient
            if total:
                terms[name] = total
            else:
                terms.pop(name, None)
        return Affine(terms, self.offset + other.offset)

    def scaled(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        return Affine({n: c * factor for n, c in self.terms.items()}, self.offset * factor)


@functools.lru_cache(maxsize=1 << 14)
def affine(e: Expr) -> Affine | None:
    """The affine form of an integer expression, or None."""
    if isinstance(e, Var):
        return Affine({e.name: 1})
    if isinstance(e, Const):
        return Affine({}, int(e.value)) if e.dtype in ("i64", "i32") else None
    if isinstance(e, Cast) and e.dtype == "i64" and e.a.dtype == "i64":
        return affine(e.a)
    if isinstance(e, Unary) and e.op == "neg":
        a = affine(e.a)
        return a.scaled(-1) if a is not None else None
    if isinstance(e, Binary) and e.op in ("add", "sub", "mul") and e.dtype == "i64":
        a, b = affine(e.a), affine(e.b)
        if a is None or b is None:
            return None
        if e.op == "add":
            return a + b
        if e.op == "sub":
            return a + b.scaled(-1)
        if not a.terms:
            return b.scaled(a.offset)
        if not b.terms:
            return a.scaled(b.offset)
    return None


Range = tuple[int, int]  # inclusive


@dataclass(frozen=True)
class Bounds:
    """Ranges of variables, with what is known from enclosing conditions (each an affine form >= 0)."""

    ranges: Mapping[str, Range]
    known: tuple[Affine, ...] = ()

    def given(self, cond: Expr) -> Bounds:
        """These bounds inside a branch where `cond` holds."""
        return self._with(conjuncts(cond))

    def otherwise(self, cond: Expr) -> Bounds:
        """These bounds inside a branch where `cond` does not hold."""
        return self._with(refuted(cond))

    def _with(self, facts: list[Affine]) -> Bounds:
        return Bounds(self.ranges, (*self.known, *facts)) if facts else self

    def affine_range(self, form: Affine) -> Range:
        return self._least(form), -self._least(form.scaled(-1))

    def _least(self, form: Affine) -> int:
        """A lower limit of a form. Variables are taken out one after the other: each by its range, or together with others by a
        fact that they make up a multiple of. Of the ways to do so the one with the highest limit counts.

            (h - 1) * 7 + (w - 1)  where h - 1 >= 0 and w - 1 >= 0    ->    7 * 0 + 1 * 0
        """
        if not self.known:
            return form.offset + sum(min(c * self.ranges[name][0], c * self.ranges[name][1]) for name, c in form.terms.items())
        if not form.terms:
            return form.offset
        name, coefficient = next(iter(form.terms.items()))
        rest = Affine({n: c for n, c in form.terms.items() if n != name}, form.offset)
        limit = self._least(rest) + min(coefficient * self.ranges[name][0], coefficient * self.ranges[name][1])
        for fact in self.known:
            ratio = _ratio(form, fact, name)
            if ratio is not None:  # form = ratio * fact + what is left, and fact >= 0
                left = {n: c for n, c in form.terms.items() if n not in fact.terms}
                limit = max(limit, math.ceil(self._least(Affine(left)) + form.offset - ratio * fact.offset))
        return limit

    def range(self, e: Expr) -> Range | None:
        """The inclusive range of an integer expression, or None where it depends on data."""
        if affine(e) is None and written_out(e) > _LARGEST_INDEX:
            return None
        return self._range(e)

    def _range(self, e: Expr) -> Range | None:
        form = affine(e)
        if form is not None:
            if any(name not in self.ranges for name in form.terms):
                return None
            return self.affine_range(form)
        if isinstance(e, Select):
            a, b = self.given(e.cond)._range(e.a), self.otherwise(e.cond)._range(e.b)
            return (min(a[0], b[0]), max(a[1], b[1])) if a and b else None
        if isinstance(e, Binary) and e.dtype == "i64":
            a, b = self._range(e.a), self._range(e.b)
            if e.op == "mod" and b and b[0] == b[1] and b[0] > 0:
                return a if a and a[0] >= 0 and a[1] < b[0] else (0, b[0] - 1)
            if e.op == "bitand" and (highest := [x[1] for x in (a, b) if x and x[0] >= 0]):
                return 0, min(highest)  # no bit is set that is not in both
            if a is None or b is None:
                return None
            return _combine(e.op, a, b)
        return None


def _ratio(form: Affine, fact: Affine, name: str) -> Fraction | int | None:
    """The number above 0 by which the terms of a fact, `name` among them, are multiplied in a form; None where there is none."""
    if name not in fact.terms or not fact.terms.keys() <= form.terms.keys():
        return None
    own, theirs = form.terms[name], fact.terms[name]
    if own * theirs < 0 or any(form.terms[n] * theirs != c * own for n, c in fact.terms.items()):
        return None
    return own // theirs if own % theirs == 0 else Fraction(own, theirs)


def _combine(op: str, a: Range, b: Range) -> Range | None:
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        products = [x * y for x in a for y in b]
        return min(products), max(products)
    if op == "floordiv" and b[0] == b[1] and b[0] > 0:
        return a[0] // b[0], a[1] // b[0]
    if op == "shr" and b[0] == b[1] and b[0] >= 0:
        return a[0] >> b[0], a[1] >> b[0]
    if op == "shl" and b[0] == b[1] and b[0] >= 0:
        return a[0] << b[0], a[1] << b[0]
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    return None


def conjuncts(cond: Expr) -> list[Affine]:
    """The affine facts (each form >= 0) that hold where `cond` does; what is not affine is left out."""
    return [fact for part in joined(cond, "and") for fact in _holding(part)]


def _holding(cond: Expr) -> list[Affine]:
    if isinstance(cond, Unary) and cond.op == "not":
        return refuted(cond.a)
    if not isinstance(cond, Binary):
        return []
    difference = _difference(cond)  # b - a
    if difference is None:
        return []
    if cond.op == "lt":
        return [difference + Affine({}, -1)]
    if cond.op == "le":
        return [difference]
    if cond.op == "eq":
        return [difference, difference.scaled(-1)]
    return []


def refuted(cond: Expr) -> list[Affine]:
    """The affine facts (each form >= 0) that hold where `cond` does not."""
    return [fact for part in joined(cond, "or") for fact in _failing(part)]


def _failing(cond: Expr) -> list[Affine]:
    if isinstance(cond, Unary) and cond.op == "not":
        return conjuncts(cond.a)
    if not isinstance(cond, Binary):
        return []
    difference = _difference(cond)  # b - a
    if difference is None:
        return []
    if cond.op == "lt":
        return [difference.scaled(-1)]
    if cond.op == "le":
        return [difference.scaled(-1) + Affine({}, -1)]
    if cond.op == "ne":
        return [difference, difference.scaled(-1)]
    return []


def _difference(cond: Binary) -> Affine | None:
    a, b = affine(cond.a), affine(cond.b)
    return b + a.scaled(-1) if a is not None and b is not None else None
