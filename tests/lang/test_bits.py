"""Operations on the bits of integers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.compile import compile as build
from tensorsmith.errors import UserError
from tensorsmith.lang.define import bits_as, cast, compute, placeholder, workload
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import BITS, binary
from tensorsmith.lang.workload import Workload

NUMPY = dict(zip(BITS, (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)))


@pytest.mark.parametrize("kind", ["u8", "i8", "i32", "i64"])
@pytest.mark.parametrize("op", BITS)
def test_as_numpy_has_them(op: str, kind: str) -> None:
    a, b = placeholder((37,), kind, name="a"), placeholder((37,), kind, name="b")
    out = compute((37,), lambda i: binary(op, a[i], b[i]), name="out")
    limits = np.iinfo(np.dtype(a.dtype.replace("i", "int").replace("u", "uint")))
    x = np.random.default_rng(1).integers(limits.min, limits.max, 37, limits.dtype, endpoint=True)
    y = x[::-1].copy() if op.startswith("bit") else (np.arange(37) % limits.bits).astype(limits.dtype)
    want = NUMPY[op](x, y)
    whole = workload([a, b, out])
    np.testing.assert_array_equal(evaluate(whole, {"a": x, "b": y})["out"], want)
    np.testing.assert_array_equal(build([a, b, out])(x, y), want)
    assert Workload.from_json(whole.to_json()) == whole


def test_of_integers_only() -> None:
    a = placeholder((4,), "f32", name="a")
    with pytest.raises(UserError, match="needs integers, not f32"):
        compute((4,), lambda i: binary("bitand", a[i], a[i]), name="out")


def edges(kind: str) -> np.ndarray:
    limits = np.iinfo(dtype(kind).numpy)
    ends = [limits.min, limits.min + 1, -2, -1, 0, 1, 2, limits.max - 1, limits.max]
    others = np.random.default_rng(3).integers(-99, 99, 24)
    return np.concatenate([np.array(ends), others]).astype(limits.dtype)


OPERATORS = {
    "and": (lambda a, b: a & b, np.bitwise_and),
    "or": (lambda a, b: a | b, np.bitwise_or),
    "xor": (lambda a, b: a ^ b, np.bitwise_xor),
    "not": (lambda a, b: ~a, lambda x, y: ~x),
    "left": (lambda a, b: a << b, np.left_shift),
    "right": (lambda a, b: a >> b, np.right_shift),
    "by_a_number": (lambda a, b: (a << 3) >> 2, lambda x, y: (x << 3) >> 2),
    "of_a_number": (lambda a, b: (5 << a) ^ (100 >> b) | 1 & a, lambda x, y: (x * 0 + 5 << x) ^ (x * 0 + 100 >> y) | 1 & x),
}


@pytest.mark.parametrize("kind", ["u8", "i8", "i32", "i64"])
def test_operators_of_integers(kind: str) -> None:
    """Any number of places: below 0, and from the number of bits on, nothing is left but the sign, as in NumPy."""
    x = edges(kind)
    x, y = (v.ravel().copy() for v in np.meshgrid(x, np.concatenate([x, np.arange(66).astype(x.dtype)])))
    a, b = placeholder(x.shape, kind, name="a"), placeholder(x.shape, kind, name="b")
    outputs = [compute(x.shape, lambda i, f=f: f(a[i], b[i]), name=name) for name, (f, _) in OPERATORS.items()]
    whole = workload([a, b, *outputs])
    assert Workload.from_json(whole.to_json()) == whole
    for results in (evaluate(whole, {"a": x, "b": y}), build(whole).run({"a": x, "b": y})):
        for name, (_, f) in OPERATORS.items():
            want = f(x, y)
            assert want.dtype == x.dtype
            np.testing.assert_array_equal(results[name], want, err_msg=name)


def test_operators_of_bools() -> None:
    x, y = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    a, b = placeholder(4, "bool", name="a"), placeholder(4, "bool", name="b")
    outputs = [compute(4, lambda i, f=f: f(a[i], b[i]), name=f"t{n}") for n, f in enumerate(BOOLS)]
    results = build([a, b, *outputs])(x, y)
    for f, got in zip(BOOLS, results):
        np.testing.assert_array_equal(got, f(x, y))


BOOLS = (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: ~a, lambda a, b: True & a, lambda a, b: False ^ b)


@pytest.mark.parametrize(("of", "to"), [("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("i64", "f64"), ("i8", "u8"), ("u8", "i8")])
def test_bits_as_another_type(of: str, to: str) -> None:
    x = np.random.default_rng(2).integers(0, 256, (37, dtype(of).bytes), np.uint8).view(dtype(of).numpy)[:, 0].copy()
    a = placeholder(37, of, name="a")
    out = compute(37, lambda i: bits_as(to, a[i]), name="out")
    turned = compute(37, lambda i: bits_as(of, bits_as(to, a[i])), name="turned")
    whole = workload([a, out, turned])
    assert Workload.from_json(whole.to_json()) == whole and "bits_as" in str(whole)
    for results in (evaluate(whole, {"a": x}), evaluate(whole, {"a": x}, precise=of != "f32"), build(whole).run({"a": x})):
        assert results["out"].tobytes() == results["turned"].tobytes() == x.tobytes()
        assert results["out"].dtype == dtype(to).numpy


def test_a_part_of_an_index_is_in_bounds() -> None:
    """`&` with a number and `>>` by one are known not to go beyond it: past the end is an error, not clamped."""
    a, index = placeholder(8, name="a"), placeholder(20, "i32", name="index")
    inside = workload([a, index, compute(20, lambda i: a[index[i] & 7] + a[i & 7] + a[i >> 2] + a[7 & (i << 1)], name="out")])
    with pytest.raises(UserError, match=r"takes values 0\.\.15; allowed are 0\.\.7"):
        workload([a, compute(20, lambda i: a[i & 15], name="out")])
    with pytest.raises(UserError, match=r"takes values 0\.\.9; allowed are 0\.\.7"):
        workload([a, compute(20, lambda i: a[i >> 1], name="out")])
    with pytest.raises(UserError, match=r"takes values 0\.\.38; allowed are 0\.\.7"):
        workload([a, compute(20, lambda i: a[i << 1], name="out")])
    x, at = np.arange(8, dtype="f4"), np.arange(-10, 10, dtype="i4")
    i = np.arange(20)
    np.testing.assert_array_equal(build(inside)(x, at), x[at & 7] + x[i & 7] + x[i >> 2] + x[7 & (i << 1)])


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda a, b: a & a, r"`a\[0\] & a\[0\]` needs bool operands or integers, not f32"),
        (lambda a, b: a << 1, r"`a\[0\] << 1.0` needs integers, not f32"),
        (lambda a, b: ~a, "does not take f32"),
        (lambda a, b: b << 32, r"`b\[0\] << 32` moves i32 by 32 places; allowed are 0\.\.31"),
        (lambda a, b: b >> -1, r"moves i32 by -1 places; allowed are 0\.\.31"),
        (lambda a, b: b & cast("i64", b), "mixes i32 and i64"),
        (lambda a, b: b & 2**40, "does not fit i32"),
        (lambda a, b: bits_as("f64", a), r"the bits of `a\[0\]` \(f32\) cannot be taken for f64; possible are f32, i32"),
        (lambda a, b: bits_as("i8", a < 0), r"\(bool\) cannot be taken for i8; possible are none"),
    ],
)
def test_refusals(define, words: str) -> None:
    with pytest.raises(UserError, match=words):
        define(placeholder(1, name="a")[0], placeholder(1, "i32", name="b")[0])
