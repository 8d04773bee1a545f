"""Quantised operators against ONNX's reference and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import by_reference, check, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx
from tensorsmith.graph.evaluate import evaluate


def whole(kind, *shape, seed=0):
    limits = np.iinfo(kind)
    return np.random.default_rng((seed, *shape)).integers(limits.min, limits.max + 1, shape).astype(kind)


KINDS = [np.int8, np.uint8]


@pytest.mark.parametrize("kind", KINDS)
def test_quantize(kind):
    x = np.append(random(3, 4, 5).ravel() * 300, [0.5, 1.5, 2.5, -0.5]).astype("f4").reshape(4, 16)
    zero = np.array(7, kind)
    check("QuantizeLinear", [x, np.array(1.0, "f4")], opset=13)
    check("QuantizeLinear", [x, np.array(1.0, "f4"), zero], opset=13)
    check("QuantizeLinear", [x, np.array([0.7], "f4"), zero.reshape(1)], opset=13)
    check("QuantizeLinear", [x, np.abs(random(4)) + 0.5, whole(kind, 4)], opset=13, axis=0)
    check("QuantizeLinear", [x, np.abs(random(16)) + 0.5, whole(kind, 16)], opset=13, axis=-1)


@pytest.mark.parametrize("kind", [np.int16, np.uint16])
def test_quantize_to_16_bits(kind):
    x = (random(4, 16) * 1e5).astype("f4")
    check("QuantizeLinear", [x, np.array(1.5, "f4"), np.array(300, kind)], opset=21)
    check("QuantizeLinear", [x, np.abs(random(16)) + 0.5, whole(kind, 16)], opset=21, axis=-1)
    check("DequantizeLinear", [whole(kind, 4, 16), np.array(0.25, "f4"), np.array(7, kind)], opset=21)


@pytest.mark.parametrize("kind", [*KINDS, np.int32])
def test_dequantize(kind):
    x = whole(kind, 4, 6, 5) if kind is not np.int32 else whole(np.int8, 4, 6, 5).astype(np.int32)
    check("DequantizeLinear", [x, np.array(0.25, "f4")], opset=13)
    zero = np.zeros(6, kind) if kind is np.int32 else whole(kind, 6)
    check("DequantizeLinear", [x, random(6), zero], opset=13, axis=1)


def test_blocks():
    x, scale, zero = random(4, 6, 2) * 50, np.abs(random(4, 3, 2)) + 0.2, whole(np.uint8, 4, 3, 2)
    check("QuantizeLinear", [x, scale, zero], peer=by_reference, opset=21, axis=1, block_size=2)
    check("DequantizeLinear", [whole(np.uint8, 4, 6, 2), scale, zero], peer=by_reference, opset=21, axis=1, block_size=2)


@pytest.mark.parametrize("x", [random(5, 7) * 9, np.abs(random(5, 7)), -np.abs(random(5, 7)), np.zeros((3, 3), "f4")])
def test_dynamic(x):
    check("DynamicQuantizeLinear", [x], peer=by_reference, outputs=3)


@pytest.mark.parametrize("left", KINDS)
@pytest.mark.parametrize("right", KINDS)
def test_matmul_integer(left, right):
    peer = {"peer": by_reference}  # ONNX Runtime saturates sums of u8 * i8 on some machines
    a, b = whole(left, 3, 4), whole(right, 4, 5)
    check("MatMulInteger", [a, b], **peer)
    check("MatMulInteger", [a, b, np.array(3, left), np.array(5, right)], **peer)
    check("MatMulInteger", [a, b, np.array(3, left), whole(right, 5, seed=1)], **peer)
    check("MatMulInteger", [whole(left, 2, 3, 4), b, np.array(3, left)], **peer)


def test_matmul_integer_with_a_zero_point_per_row():
    a, b, zero = whole(np.uint8, 3, 4), whole(np.uint8, 4, 5), np.array([1, 2, 3], "u1")
    model, inputs = model_of("MatMulInteger", [a, b, zero])
    (got,) = evaluate(load_onnx(model), inputs).values()
    np.testing.assert_array_equal(got, (a.astype("i4") - zero.astype("i4")[:, None]) @ b.astype("i4"))


@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 1, 1, 1]}, {"strides": [2, 2], "pads": [0, 1, 1, 0]}], ids=str)
def test_conv_integer(attributes):
    x, w = whole(np.uint8, 1, 3, 6, 6), whole(np.uint8, 4, 3, 3, 3)
    check("ConvInteger", [x, w], **attributes)
    check("ConvInteger", [x, w, np.array(9, "u1")], **attributes)
    check("ConvInteger", [x, w, np.array(9, "u1"), np.array(100, "u1")], **attributes)


def quantised_conv(kind, group=1, per_channel=False, bias=True, compiled=False):
    outputs = 4
    w_scale = np.abs(random(outputs)) * 0.01 + 0.001 if per_channel else np.array(0.004, "f4")
    w_zero = np.zeros(outputs, kind) if per_channel else np.array(3, kind)
    arrays = [
        whole(np.uint8, 1, 4, 6, 6), np.array(0.02, "f4"), np.array(117, "u1"),
        whole(kind, outputs, 4 // group, 3, 3), w_scale, w_zero, np.array(0.05, "f4"), np.array(120, "u1"),
    ]  # fmt: skip
    arrays += [whole(np.int8, outputs).astype("i4") * 20] if bias else []
    # a sum that ends in a half may be rounded either way
    check(
        "QLinearConv",
        arrays,
        peer=by_reference,
        atol=1,
        rtol=0,
        compiled=compiled,
        group=group,
        pads=[1, 1, 1, 1],
        constants=tuple(range(1, 9)),
    )


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize(("kind", "per_channel"), [(np.int8, True), (np.uint8, False), (np.int8, False)])
def test_qlinear_conv(kind, per_channel, group):
    quantised_conv(kind, group, per_channel)
    quantised_conv(kind, group, per_channel, bias=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5))])
def test_qlinear_matmul(kind, shapes):
    a, b = whole(kind, *shapes[0]), whole(kind, *shapes[1])
    scale, zero = np.array(0.01, "f4"), np.array(11, kind)
    check("QLinearMatMul", [a, scale, zero, b, scale, zero, np.array(0.02, "f4"), zero], atol=1, rtol=0)


def test_generated_code():
    check("QuantizeLinear", [random(5, 19) * 300, np.abs(random(19)) + 0.5, whole(np.uint8, 19)], opset=13, compiled=True)
    check("DequantizeLinear", [whole(np.int8, 5, 19), np.abs(random(19)), whole(np.int8, 19)], opset=13, compiled=True)
    check("DynamicQuantizeLinear", [random(5, 19)], peer=by_reference, outputs=3, compiled=True)
    check("MatMulInteger", [whole(np.uint8, 5, 19), whole(np.uint8, 19, 17), np.array(3, "u1"), np.array(5, "u1")], compiled=True)
    quantised_conv(np.int8, 1, True, compiled=True)


def test_refusals():
    x = random(4, 6)
    for arrays, attributes, message in [
        ([x, random(5)], {"axis": 1}, "a scale of .5. does not fit dimension 1"),
        ([x, random(4, 2)], {"axis": 1, "block_size": 2}, "blocks of 2 along dimension 1"),
        ([x, np.array(1, "f4"), np.array(1, "i4")], {}, "supported in 8 and 16 bits, not as i32"),
        ([x, random(6)], {"axis": 2}, "axis is 2"),
    ]:
        model, _ = model_of("QuantizeLinear", arrays, opset=21, **attributes)
        with pytest.raises(UserError, match=message):
            load_onnx(model)
