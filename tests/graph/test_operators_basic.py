"""Elementwise operators, movement, indexing and reductions against NumPy: by definition, and by the code generated from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorsmith.compile import compile as build
from tensorsmith.elements import TABLE
from tensorsmith.errors import UserError
from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder
from tensorsmith.lang.define import placeholder

Array = np.ndarray[Any, Any]


def check(
    name: str, arrays: list[Array], want: Array | tuple[Array, ...], rtol: float = 2e-6, atol: float = 2e-6, **attributes: Any
) -> None:
    """Both ways of computing an operator give what is wanted, in shape, type and value."""
    wanted = want if isinstance(want, tuple) else (want,)
    tensors = [placeholder(a.shape, a.dtype, name=f"in{n}") for n, a in enumerate(arrays)]
    made = operators.define(name, tensors, attributes)
    generated = build([*tensors, *made])(*arrays)
    for results in (operators.evaluate(name, arrays, attributes), generated if isinstance(generated, tuple) else (generated,)):
        assert len(results) == len(wanted)
        for got, right in zip(results, wanted):
            assert (got.shape, got.dtype) == (right.shape, right.dtype)
            np.testing.assert_allclose(got, right, rtol=rtol, atol=atol)


def floats(*shape: int, low: float = -3, high: float = 3, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).uniform(low, high, shape).astype("f4")


def integers(*shape: int, low: int = -9, high: int = 9, kind: str = "i8", seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).integers(low, high, shape).astype(kind)


X = floats(5, 17)  # neither is a multiple of a vector

UNARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "absolute": (np.abs, -3, 3),
    "negative": (np.negative, -3, 3),
    "square": (np.square, -3, 3),
    "reciprocal": (np.reciprocal, 0.1, 3),
    "sign": (np.sign, -3, 3),
    "truncate": (np.trunc, -3, 3),
    "round": (np.rint, -3, 3),
    "relu": (lambda x: np.maximum(x, 0), -3, 3),
    "softplus": (lambda x: np.log1p(np.exp(x)), -30, 30),
    "softsign": (lambda x: x / (1 + np.abs(x)), -3, 3),
    "silu": (lambda x: x / (1 + np.exp(-x)), -9, 9),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), -9, 9),
    "hard_swish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), -9, 9),
    "tan": (np.tan, -1.4, 1.4),
    "sinh": (np.sinh, -4, 4),
    "cosh": (np.cosh, -4, 4),
    "asinh": (np.arcsinh, -9, 9),
    "acosh": (np.arccosh, 1.01, 9),
    "atanh": (np.arctanh, -0.99, 0.99),
    "atan": (np.arctan, -9, 9),
    "asin": (np.arcsin, -0.99, 0.99),
    "acos": (np.arccos, -0.99, 0.99),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    function, low, high = UNARY[name]
    x = floats(5, 17, low=low, high=high)
    check(name, [x], function(x.astype(np.float64)).astype("f4"))


def test_inverse_functions_have_the_precision_of_their_type() -> None:
    for name, function in (("sinh", np.sinh), ("asinh", np.arcsinh), ("atanh", np.arctanh)):
        x = np.concatenate([np.geomspace(1e-9, 0.9, 50), -np.geomspace(1e-9, 0.9, 50)])
        (got,) = operators.evaluate(name, [x], {})
        np.testing.assert_allclose(got, function(x), rtol=1e-13)


@pytest.mark.parametrize("kind", ["i1", "i4", "i8", "u1"])
def test_whole_numbers_divide_as_in_c(kind: str) -> None:
    a = integers(9, 17, low=0 if kind == "u1" else -50, high=50, kind=kind)
    b = integers(9, 17, low=1, high=9, kind=kind, seed=1)
    if kind != "u1":
        b *= integers(9, 17, low=0, high=2, kind=kind, seed=2) * 2 - 1
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    quotient = np.trunc(wide_a / wide_b).astype(kind)
    check("divide", [a, b], quotient)
    check("remainder", [a, b], np.fmod(a, b))
    check("modulo", [a, b], np.mod(a, b))


def test_remainders_of_floats() -> None:
    a, b = floats(4, 9), floats(4, 9, low=0.5, seed=1)
    check("remainder", [a, b], np.fmod(a, b))


def test_powers_take_the_type_of_the_base() -> None:
    check("power", [floats(7, low=0.1), np.arange(7)], floats(7, low=0.1) ** np.arange(7).astype("f4"))
    check("power", [np.arange(1, 9, dtype=np.int32), np.full(8, 3, np.int32)], np.arange(1, 9, dtype=np.int32) ** 3)
    check("power", [np.full(3, 10), np.array([2.0, 3.0, 0.5], "f4")], np.array([100, 1000, 3]))


def test_logic_and_comparisons() -> None:
    a, b = integers(3, 5), integers(5, seed=1)
    for name, function in (("equal", np.equal), ("less", np.less), ("less_equal", np.less_equal)):
        check(name, [a, b], function(a, b))
    p, q = a > 0, b > 0
    for name, function in (("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)):
        check(name, [p, q], function(p, q))
    check("logical_not", [p], ~p)
    check("where", [p, floats(3, 1), floats(5)], np.where(p, floats(3, 1), floats(5)))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_not"])
def test_logic_is_of_bools_only(name: str) -> None:
    """Python's `&` of integers would be of their bits, and 1 & 2 is 0."""
    numbers = [np.array([1, 2]), np.array([2, 1])]
    with pytest.raises(UserError, match=r"bool|does not take"):
        operators.evaluate(name, numbers[: 1 if name == "logical_not" else 2], {})


def test_special_numbers() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1], "f4")
    check("is_nan", [x], np.isnan(x))
    check("is_inf", [x], np.isinf(x))
    check("is_inf", [x], x == np.inf, negative=False)
    check("is_inf", [x], x == -np.inf, positive=False)
    check("is_inf", [x], np.zeros(6, bool), positive=False, negative=False)
    check("sign", [x], np.sign(x))


def test_activations_with_numbers() -> None:
    check("leaky_relu", [X], np.where(X < 0, X * np.float32(0.1), X), slope=0.1)
    check("elu", [X], np.where(X < 0, 1.5 * np.expm1(X), X).astype("f4"), alpha=1.5)
    check("elu", [X], np.where(X < 0, 2 * np.expm1(X / 2), X).astype("f4"), alpha=2.0, gain=0.5)
    check("elu", [X], (1.05 * np.where(X < 0, 1.67 * np.expm1(X), X)).astype("f4"), alpha=1.67, scale=1.05)
    check("thresholded_relu", [X], np.where(X > 0.5, X, 0).astype("f4"), alpha=0.5)
    check("shrink", [X], np.where(X > 1, X - 0.25, np.where(X < -1, X + 0.25, 0)).astype("f4"), bias=0.25, limit=1.0)
    check("clip", [X], np.clip(X, -1, None), low=-1.0)
    check("clip", [X], np.clip(X, None, 1), high=1.0)
    check("prelu", [X, floats(17, seed=1)], np.where(X < 0, X * floats(17, seed=1), X))


@pytest.mark.parametrize("to", ["f64", "f16", "i8", "i32", "i64", "bool"])
def test_casts(to: str) -> None:
    kind = {"f64": "f8", "f16": "f2", "i8": "i1", "i32": "i4", "i64": "i8", "bool": "?"}[to]
    check("cast", [X], X.astype(kind), to=to)


# movement


def test_slices() -> None:
    x = floats(5, 6, 7)
    check("slice", [x], x[1:4, ::2, 6:0:-3], starts=(1, 0, 6), sizes=(3, 3, 2), steps=(1, 2, -3))
    check("slice", [x], x[4::-1], starts=(4, 0, 0), sizes=(5, 6, 7), steps=(-1, 1, 1))
    with pytest.raises(UserError, match=r"elements 3\.\.6"):
        operators.evaluate("slice", [x], {"starts": (3, 0, 0), "sizes": (4, 6, 7)})


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_concat(count: int) -> None:
    parts = [floats(3, n % 4, 5, seed=n) for n in range(count + 1)]  # one of them is empty
    check("concat", parts, np.concatenate(parts, 1), axis=1)


def test_concat_of_parts_that_do_not_fit() -> None:
    with pytest.raises(UserError, match="do not fit"):
        operators.evaluate("concat", [floats(2, 3), floats(3, 3)], {"axis": 1})
    with pytest.raises(UserError, match="do not fit"):
        operators.evaluate("concat", [floats(2, 3), integers(2, 3)], {"axis": 1})


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pairs", [((0, 0), (2, 3)), ((1, 0), (0, 5)), ((3, 4), (1, 1))])
def test_padding(mode: str, pairs: tuple[tuple[int, int], ...]) -> None:
    x = floats(4, 6)
    check("pad", [x], np.pad(x, pairs, mode), pairs=pairs, mode=mode)


def test_padding_that_reflects_more_than_once_and_that_cuts() -> None:
    x = floats(3, 2)
    check("pad", [x], np.pad(x, ((5, 7), (4, 0)), "reflect"), pairs=((5, 7), (4, 0)), mode="reflect")
    check("pad", [x[:, :1]], np.pad(x[:, :1], ((0, 0), (4, 2)), "reflect"), pairs=((0, 0), (4, 2)), mode="reflect")
    for mode in ("constant", "edge"):
        check("pad", [floats(5, 4)], np.pad(floats(5, 4)[1:], ((0, 2), (1, 0)), mode), pairs=((-1, 2), (1, 0)), mode=mode)


def test_the_other_movements() -> None:
    x = floats(2, 3, 4)
    check("tile", [x], np.tile(x, (2, 1, 3)), repeats=(2, 1, 3))
    check("broadcast", [floats(3, 1)], np.broadcast_to(floats(3, 1), (2, 3, 4)), shape=(2, 3, 4))
    for k in (-2, 0, 1):
        check("triangle", [x], np.triu(x, k), upper=True, diagonal=k)
        check("triangle", [x], np.tril(x, k), upper=False, diagonal=k)
    reversed_ = x.copy()
    reversed_[0, :2], reversed_[1, :3] = x[0, 1::-1], x[1, 2::-1]
    check("reverse_sequence", [x, np.array([2, 3])], reversed_, time_axis=1, batch_axis=0)


def test_empty_tensors() -> None:
    x = np.zeros((0, 3), "f4")
    assert operators.evaluate("reshape", [x], {"shape": (3, 0, 2)})[0].shape == (3, 0, 2)
    assert operators.evaluate("tile", [x], {"repeats": (2, 2)})[0].shape == (0, 6)
    assert operators.evaluate("slice", [floats(2, 3)], {"starts": (0, 0), "sizes": (0, 3)})[0].shape == (0, 3)
    assert operators.evaluate("gather", [x, np.zeros(0, np.int64)], {"axis": 0})[0].shape == (0, 3)
    np.testing.assert_array_equal(operators.evaluate("pad", [x], {"pairs": ((1, 0), (0, 0)), "value": 2.0})[0], np.full((1, 3), 2))


# indexing


def test_gathers() -> None:
    x, indices = floats(4, 5, 6), np.array([[0, -1], [3, 1], [-4, 2]])
    check("gather", [x, indices], np.take(x, indices, 0), axis=0)
    check("gather", [x, indices.astype(np.int32)], np.take(x, indices, 2), axis=-1)
    elements = integers(4, 5, 2, low=-6, high=6)
    check("gather_elements", [x, elements], np.take_along_axis(x, elements, 2), axis=2)
    pairs = integers(3, 2, low=-4, high=4)
    check("gather_nd", [x, pairs], x[tuple(pairs.T)])
    batched = integers(4, 2, 1, low=0, high=5)
    check("gather_nd", [x, batched], np.stack([x[n][batched[n, :, 0]] for n in range(4)]), batch=1)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatters(reduction: str) -> None:
    combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    x, indices, updates = floats(5, 6), integers(4, 3, low=-6, high=6), floats(4, 3, seed=1)  # smaller than x, with doubles
    want = x.copy()
    for i, k in np.ndindex(4, 3):
        want[i, indices[i, k]] = combine(want[i, indices[i, k]], updates[i, k])
    check("scatter_elements", [x, indices, updates], want, axis=1, reduction=reduction)
    places, rows = integers(2, 4, 1, low=-5, high=5), floats(2, 4, 6, seed=2)
    want = x.copy()
    for i in np.ndindex(2, 4):
        want[places[i][0]] = combine(want[places[i][0]], rows[i])
    check("scatter_nd", [x, places, rows], want, reduction=reduction)


def test_a_single_scattered_element() -> None:
    x = floats(3, 4)
    want = x.copy()
    want[1, 2] = 9
    check("scatter_nd", [x, np.array([1, -2]), np.array(9, "f4")], want)


def test_overlay() -> None:
    x, updates = floats(3, 4), floats(2, 4, seed=1)
    check("overlay", [x, updates, np.array([-1, 1, 0])], np.stack([x[0], updates[1], updates[0]]))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(axis: int) -> None:
    indices = integers(2, 3, low=-4, high=4)
    want = np.moveaxis(np.where(indices[..., None] % 4 == np.arange(4), 5, 2).astype("f4"), -1, axis)
    check("one_hot", [indices, np.array([2, 5], "f4")], want, depth=4, axis=axis)


@pytest.mark.parametrize("largest", [True, False])
def test_top_k(largest: bool) -> None:
    x = integers(3, 11, low=-4, high=4).astype("f4")  # with many that are equal
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :5]
    check("top_k", [x], (np.take_along_axis(x, order, 1), order), k=5, axis=1, largest=largest)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "bf16"])
def test_top_k_has_nan_for_the_largest(kind: str, largest: bool) -> None:
    """Each element has a place of its own: what comes out is a permutation, however many NaNs and zeros there are."""
    special = [3, np.nan, -1, 2, -0.0, 0.0, np.inf, np.nan, -np.inf, 2, np.nan, 1.5]
    rows = np.stack([np.random.default_rng(n).permutation(special) for n in range(6)] + [np.full(12, np.nan)])
    x = rows.astype(TABLE["bf16"].numpy if kind == "bf16" else kind)
    key = np.where(np.isnan(rows), np.inf, rows), np.isnan(rows)  # of equal numbers, NaN comes last
    ascending = np.lexsort((np.broadcast_to(np.arange(12), rows.shape), *key), axis=1)
    falling = np.lexsort((np.broadcast_to(np.arange(12), rows.shape), -key[0], ~key[1]), axis=1)
    order = falling if largest else ascending
    check("top_k", [x], (np.take_along_axis(x, order, 1), order), k=12, axis=1, largest=largest)


# reductions


@pytest.mark.parametrize("axes", [None, (0,), (2,), (0, 2), ()])
@pytest.mark.parametrize("keepdims", [True, False])
def test_reductions(axes: tuple[int, ...] | None, keepdims: bool) -> None:
    x = floats(4, 5, 19)
    over: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    wide = x.astype(np.float64)
    wanted = {
        "reduce_sum": wide.sum(**over),
        "reduce_mean": wide.mean(**over),
        "reduce_max": wide.max(**over),
        "reduce_min": wide.min(**over),
        "reduce_l1": np.abs(wide).sum(**over),
        "reduce_l2": np.sqrt(np.square(wide).sum(**over)),
        "reduce_sum_square": np.square(wide).sum(**over),
        "reduce_log_sum_exp": np.log(np.exp(wide).sum(**over)),
    }
    for name, want in wanted.items():
        check(name, [x], np.asarray(want, "f4"), rtol=2e-5, atol=2e-4, axes=axes, keepdims=keepdims)


def test_reductions_of_other_types() -> None:
    x = integers(4, 7)
    check("reduce_sum", [x], x.sum(1), axes=(1,))
    check("reduce_mean", [x], np.trunc(x.mean(1)).astype(x.dtype), axes=(1,))
    check("reduce_max", [x > 0], (x > 0).any(1), axes=(1,))
    check("reduce_min", [x > 0], (x > 0).all(1), axes=(1,))
    check("reduce_prod", [floats(3, 5)], floats(3, 5).prod(1), axes=(1,))


def test_log_sum_exp_of_large_and_infinite_numbers() -> None:
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 0]], "f4")
    check("reduce_log_sum_exp", [x], np.array([1000 + math.log(2), -np.inf, np.inf], "f4"), axes=(1,))


@pytest.mark.parametrize("last", [True, False])
def test_positions(last: bool) -> None:
    x = integers(5, 13, low=0, high=4).astype("f4")
    biggest = 12 - np.argmax(x[:, ::-1], 1) if last else np.argmax(x, 1)
    smallest = 12 - np.argmin(x[:, ::-1], 1) if last else np.argmin(x, 1)
    check("argmax", [x], biggest, axis=1, keepdims=False, last=last)
    check("argmin", [x], smallest[:, None], axis=1, keepdims=True, last=last)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_cumulative_sums(exclusive: bool, reverse: bool) -> None:
    x = integers(3, 9)
    turned = x[:, ::-1] if reverse else x
    total = np.cumsum(turned, 1) - (turned if exclusive else 0)
    check("cumulative_sum", [x], total[:, ::-1] if reverse else total, axis=1, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize(
    ("inputs", "output", "shapes"),
    [
        (("ij", "jk"), "ik", [(3, 4), (4, 5)]),
        (("bij", "bkj"), "bik", [(2, 3, 4), (2, 5, 4)]),
        (("bij", "bjk"), "bik", [(1, 3, 4), (2, 4, 5)]),
        (("ii",), "i", [(4, 4)]),
        (("ii",), "", [(4, 4)]),
        (("ij",), "ji", [(3, 4)]),
        (("i", "j"), "ij", [(3,), (4,)]),
        (("ij", "ij"), "", [(3, 4), (3, 4)]),
    ],
)
def test_einsum(inputs: tuple[str, ...], output: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [floats(*shape, seed=n) for n, shape in enumerate(shapes)]
    want = np.einsum(f"{','.join(inputs)}->{output}", *arrays)
    check("einsum", arrays, np.asarray(want), rtol=1e-5, atol=1e-5, inputs=inputs, output=output)


def test_the_builder_finds_the_inputs_behind_a_value() -> None:
    b = Builder()
    x, y, z = (b.input(name, (2,), "f32") for name in "xyz")
    total = b.add("add", [b.add("negative", [z]), x])
    b.add("negative", [y])
    assert b.sources(total) == ["x", "z"]
    assert b.sources(y) == ["y"]
