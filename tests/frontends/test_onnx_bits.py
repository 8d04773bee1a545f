"""Operators on bits, and those whose results have a size that only the data tell."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from tests.frontends.onnx_nodes import by_reference, check, model_of, run_compiled

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx import NeedsConstant, load_onnx
from tensorsmith.graph.evaluate import evaluate

TYPES = ["u1", "i1", "i4", "i8"]


def numbers(kind: str, seed: int) -> np.ndarray:
    limits = np.iinfo(kind)
    return np.random.default_rng(seed).integers(limits.min, limits.max, (3, 17), kind, endpoint=True)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("operator", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise(operator: str, kind: str) -> None:
    check(operator, [numbers(kind, 1), numbers(kind, 2)], by_reference, compiled=True, opset=18)


@pytest.mark.parametrize("kind", TYPES)
def test_bitwise_not(kind: str) -> None:
    check("BitwiseNot", [numbers(kind, 1)], by_reference, compiled=True, opset=18)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("kind", TYPES)
def test_shifts(kind: str, direction: str) -> None:
    """By everything from less than 0 to more than the bits; beyond them the sign is all that is left."""
    x, bits = numbers(kind, 3)[:, :1], np.dtype(kind).itemsize * 8
    by = np.arange(0 if kind == "u1" else -2, bits + 3).astype(kind)
    inside = (by >= 0) & (by < bits)
    places = np.where(inside, by, 0).astype(kind)
    if direction == "LEFT":
        want = np.where(inside, x << places, 0)
    else:
        want = np.where(inside, x >> places, np.where(x < 0, -1, 0))
    model, inputs = model_of("BitShift", [x, by], opset=28, direction=direction)
    graph = load_onnx(model)
    for run in (evaluate, run_compiled):
        np.testing.assert_array_equal(run(graph, inputs)["y0"], want.astype(kind))


def test_unsigned_numbers_are_shifted_as_such() -> None:
    x, by = np.array([2**64 - 2, 5, 2**63], "u8"), np.array([1, 0, 63], "u8")
    model, _ = model_of("BitShift", [x, by], opset=11, direction="RIGHT")
    for run in (evaluate, run_compiled):
        np.testing.assert_array_equal(run(load_onnx(model), {"x0": x, "x1": by})["y0"], x >> by)


def test_bit_casts() -> None:
    x = np.array([[1.5, -0.0, np.inf]], "f4")
    model, _ = model_of("BitCast", [x], opset=26, constants=(0,), to=TensorProto.INT32)
    np.testing.assert_array_equal(evaluate(load_onnx(model), {})["y0"], x.view("i4"))
    with pytest.raises(UserError, match="32 bits cannot be taken for float64, which has 64"):
        load_onnx(model_of("BitCast", [x], opset=26, constants=(0,), to=TensorProto.DOUBLE)[0])


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_up_to_each_element(flags: tuple[int, int]) -> None:
    x = np.random.default_rng(1).uniform(0.5, 2, (3, 9)).astype("f4")
    exclusive, reverse = flags
    arrays = [x, np.array(1)]
    check("CumProd", arrays, by_reference, compiled=True, constants=(1,), opset=26, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_updates_of_a_cache(mode: str) -> None:
    cache, update = np.zeros((2, 3, 5, 4), "f4"), np.arange(48, dtype="f4").reshape(2, 3, 2, 4) + 1
    starts = np.array([1, 3 if mode == "linear" else 4])
    check("TensorScatter", [cache, update, starts], by_reference, compiled=True, opset=24, mode=mode)


def test_sizes_that_only_the_data_tell() -> None:
    x = np.array([[3, 1], [3, 1], [0, 2]], "f4")
    for attributes in ({}, {"sorted": 0}, {"axis": 0}, {"axis": 0, "sorted": 0}):
        check("Unique", [x], constants=(0,), outputs=4, opset=11, **attributes)
    boxes = np.array([[[0, 0, 2, 2], [2, 1.9, 0, 0], [5, 5, 6, 6], [0, 0, 0.5, 2]]], "f4")
    scores = np.array([[[0.5, 0.9, 0.7, 0.8], [0.1, 0.2, 0.3, 0.4]]], "f4")
    limits = [np.array(2), np.array(0.4, "f4"), np.array(0.15, "f4")]
    for attributes in ({}, {"center_point_box": 1}):
        check("NonMaxSuppression", [boxes, scores, *limits], constants=(0, 1, 2, 3, 4), opset=11, **attributes)
    with pytest.raises(NeedsConstant, match="NonMaxSuppression node: the size of its result depends on the boxes"):
        load_onnx(model_of("NonMaxSuppression", [boxes, scores], opset=11)[0])
