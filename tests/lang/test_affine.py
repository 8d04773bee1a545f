"""Affine forms and ranges, against brute force over all points."""

from __future__ import annotations

import itertools
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorsmith.lang import define as ts
from tensorsmith.lang.affine import Affine, Bounds, affine, conjuncts, refuted
from tensorsmith.lang.expr import Binary, Const, Expr, Select, Unary, Var, wrap

EXTENTS = {"i": 3, "j": 4, "k": 2}
BOUNDS = Bounds({name: (0, extent - 1) for name, extent in EXTENTS.items()})
POINTS = [dict(zip(EXTENTS, values)) for values in itertools.product(*map(range, EXTENTS.values()))]


def at(e: Expr, point: dict[str, int]):
    """The value of an index expression at a point, by Python's own arithmetic."""
    if isinstance(e, Const):
        return e.value
    if isinstance(e, Var):
        return point[e.name]
    if isinstance(e, Select):
        return at(e.a, point) if at(e.cond, point) else at(e.b, point)
    if isinstance(e, Unary):
        return {"neg": lambda a: -a, "not": lambda a: not a}[e.op](at(e.a, point))
    assert isinstance(e, Binary)
    a, b = at(e.a, point), at(e.b, point)
    python = {
        "floordiv": operator.floordiv, "max": max, "min": min, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
    }  # fmt: skip
    return python.get(e.op, getattr(operator, e.op, None))(a, b)


variables = st.sampled_from(list(EXTENTS)).map(Var)
constants = st.integers(-5, 5).map(wrap)
leaves = variables | constants


def affine_parts(inner):
    return (
        st.tuples(inner, inner).map(lambda p: p[0] + p[1])
        | st.tuples(inner, inner).map(lambda p: p[0] - p[1])
        | st.tuples(inner, constants).map(lambda p: p[0] * p[1])
        | st.tuples(constants, inner).map(lambda p: p[0] * p[1])
        | inner.map(lambda e: -e)
    )


affine_expressions = st.recursive(leaves, affine_parts, max_leaves=6)
comparisons = st.tuples(st.sampled_from(["lt", "le", "eq", "ne"]), affine_expressions, affine_expressions).map(lambda c: Binary(*c))


def condition_parts(inner):
    return st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(lambda c: Binary(*c)) | inner.map(lambda c: Unary("not", c))


conditions = st.recursive(comparisons, condition_parts, max_leaves=3)


def index_parts(inner):
    positive = st.integers(1, 4).map(wrap)
    return (
        affine_parts(inner)
        | st.tuples(inner, positive).map(lambda p: p[0] // p[1])
        | st.tuples(inner, positive).map(lambda p: p[0] % p[1])
        | st.tuples(inner, inner).map(lambda p: ts.maximum(*p))
        | st.tuples(inner, inner).map(lambda p: ts.minimum(*p))
        | st.tuples(conditions, inner, inner).map(lambda p: Select(*p))
    )


index_expressions = st.recursive(leaves, index_parts, max_leaves=6)


@given(affine_expressions)
def test_affine_form_has_the_same_value_everywhere(e):
    form = affine(e)
    assert form is not None
    assert all(form.terms.values()), "no zero coefficients"
    for point in POINTS:
        assert form.offset + sum(c * point[n] for n, c in form.terms.items()) == at(e, point)


@given(affine_expressions)
def test_range_of_affine_is_exact(e):
    values = [at(e, point) for point in POINTS]
    assert BOUNDS.range(e) == (min(values), max(values))


@settings(max_examples=300)
@given(index_expressions)
def test_range_holds_every_value(e):
    found = BOUNDS.range(e)
    if found is not None:
        values = [at(e, point) for point in POINTS]
        assert found[0] <= min(values)
        assert max(values) <= found[1]


@settings(max_examples=300)
@given(conditions, affine_expressions)
def test_range_inside_branches_holds_every_value(cond, e):
    for bounds, taken in ((BOUNDS.given(cond), True), (BOUNDS.otherwise(cond), False)):
        low, high = bounds.affine_range(affine(e))
        for point in POINTS:
            if bool(at(cond, point)) == taken:
                assert low <= at(e, point) <= high


@settings(max_examples=300)
@given(conditions)
def test_facts_hold_where_they_should(cond):
    def holds(facts, point):
        return all(f.offset + sum(c * point[n] for n, c in f.terms.items()) >= 0 for f in facts)

    for point in POINTS:
        assert holds(conjuncts(cond) if at(cond, point) else refuted(cond), point)


def test_what_is_not_affine():
    a = ts.placeholder((4,), "i64", name="a")
    for e in (Var("i") * Var("j"), Var("i") // 2, Var("i") % 2, a[Var("i")], ts.maximum(Var("i"), 0)):
        assert affine(e) is None
    assert BOUNDS.range(a[Var("i")]) is None
    assert BOUNDS.range(a[Var("i")] % 3) == (0, 2)


def test_conditions_narrow_the_range():
    h = Var("i")
    bounds = Bounds({"i": (0, 9)}).given((h >= 2) & (h < 7))
    assert bounds.range(h - 2) == (0, 4)
    assert bounds.range(7 - h) == (1, 5)
    assert bounds.range(h * 2) == (4, 12), "a multiple of what is known"
    assert bounds.range(h * -3 + 1) == (-17, -5)
    assert Bounds({"i": (0, 9)}).given(h * 2 >= 3).range(h) == (2, 9), "a part of it, rounded inwards"
    assert Bounds({"i": (0, 9)}).otherwise(h < 4).range(h - 4) == (0, 5)


@pytest.mark.parametrize("factor", [0, 1, -2])
def test_affine_arithmetic(factor):
    form = Affine({"i": 2, "j": -1}, 3)
    assert form.scaled(factor) == (Affine() if factor == 0 else Affine({"i": 2 * factor, "j": -factor}, 3 * factor))
    assert form + form.scaled(-1) == Affine()
