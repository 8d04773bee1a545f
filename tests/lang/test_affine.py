"""Affine forms and ranges, against brute force over all points."""

from __future__ import annotations

import itertools
import operator

import numpy as np
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


@pytest.mark.parametrize("seed", range(60))
def test_ranges_under_random_conditions_hold_every_value(seed: int) -> None:
    """Of all points at which the conditions hold, every value of the form is in its range."""
    generator = np.random.default_rng(seed)
    names = ["a", "b", "c"][: generator.integers(1, 4)]
    ranges = {n: (low, low + int(generator.integers(0, 5))) for n, low in zip(names, generator.integers(-3, 3, 3).tolist())}

    def form() -> Affine:
        chosen = [n for n in names if generator.random() < 0.7] or names[:1]
        return Affine({n: int(generator.choice([-7, -3, -2, -1, 1, 2, 3, 7])) for n in chosen}, int(generator.integers(-4, 5)))

    facts, target = [form() for _ in range(generator.integers(1, 5))], form()

    def value(f: Affine, point: dict[str, int]) -> int:
        return f.offset + sum(c * point[n] for n, c in f.terms.items())

    points = [dict(zip(names, p)) for p in itertools.product(*(range(ranges[n][0], ranges[n][1] + 1) for n in names))]
    values = [value(target, p) for p in points if all(value(f, p) >= 0 for f in facts)]
    low, high = Bounds(ranges, tuple(facts)).affine_range(target)
    assert all(low <= v <= high for v in values)


@pytest.mark.parametrize("seed", range(40))
def test_the_range_of_a_padded_image_in_rows_is_exact(seed: int) -> None:
    """What guards rows and columns of an image guards their places in a list of pixels, with a stride and a window besides."""
    generator = np.random.default_rng(seed)
    height, width, pad, stride, window, first = (int(n) for n in generator.integers((2, 2, 0, 1, 1, 0), (9, 9, 4, 4, 4, 3)))
    h, w, kh, kw = (Var(n) for n in ("h", "w", "kh", "kw"))
    row, column = h * stride + kh - pad, w * stride + kw - pad
    steps = [(n + 2 * pad - window) // stride + 1 if n + 2 * pad >= window else 1 for n in (height, width)]
    bounds = Bounds({"h": (0, steps[0] - 1), "w": (0, steps[1] - 1), "kh": (0, window - 1), "kw": (0, window - 1)})
    inside = bounds.given((row >= 0) & (row < height) & (column >= 0) & (column < width))
    low, high = inside.range(row * width + column + first) or (-1, -1)
    assert first <= low and high <= first + height * width - 1
