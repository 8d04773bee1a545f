"""Softmax and normalisations against ONNX Runtime and ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import by_onnxruntime, by_reference, check, kinds, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [9, 11, 13, 18])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
def test_softmax(kind, opset, axis):
    attributes = {} if axis is None else {"axis": axis}
    check(kind, [random(3, 4, 5) * 9], opset=opset, **attributes)


def test_softmax_of_large_numbers():
    check("Softmax", [np.array([[1000, 999, -1000], [-1e30, -1e30, 0]], "f4")], compiled=True)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 7), (2, 5, 4, 3), (1, 5, 2, 3, 4)])
def test_batch_normalization(opset, shape):
    scale, shift, mean, variance = random(4, 5)
    arrays = [random(*shape), scale, shift, mean, np.abs(variance) + 0.1]
    graph = check("BatchNormalization", arrays, opset=opset, constants=(1, 2, 3, 4), epsilon=1e-3)
    assert kinds(graph) == ["multiply", "add"]


def test_batch_normalization_of_computed_statistics():
    scale, shift, mean, variance = random(4, 5)
    check("BatchNormalization", [random(2, 5, 4, 3), scale, shift, mean, np.abs(variance)], opset=15)


@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 4, 3)])
def test_batch_normalization_in_training(shape):
    scale, shift, mean, variance = random(4, 5)
    arrays = [random(*shape) + 1, scale, shift, mean, np.abs(variance)]
    check("BatchNormalization", arrays, peer=by_reference, opset=15, outputs=3, training_mode=1, momentum=0.7)


@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 5, 4, 3), (1, 5, 2, 3, 4)])
def test_instance_normalization(shape):
    check("InstanceNormalization", [random(*shape) * 3 + 2, random(5), random(5, seed=1)], constants=(1, 2), epsilon=1e-2)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_normalization(opset, groups):
    each = 6 if opset >= 21 else groups
    arrays = [random(2, 6, 4, 3), random(each), random(each, seed=1)]
    check("GroupNormalization", arrays, peer=by_reference, opset=opset, num_groups=groups, epsilon=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_layer_normalization(axis, bias):
    x = random(3, 4, 5) * 2 + 1
    shape = x.shape[axis:]
    arrays = [x, random(*shape), random(*shape, seed=1)] if bias else [x, random(*shape)]
    check("LayerNormalization", arrays, axis=axis, epsilon=1e-3, constants=(1, 2))
    check("LayerNormalization", arrays, axis=axis, outputs=3)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_rms_normalization(axis):
    x = random(3, 4, 5)
    check("RMSNormalization", [x, random(*x.shape[axis:])], peer=by_reference, opset=23, axis=axis)


@pytest.mark.parametrize("axes", [None, [1], [0, 1, 2, 3], [2, 3]])
def test_mean_variance_normalization(axes):
    attributes = {} if axes is None else {"axes": axes}
    check("MeanVarianceNormalization", [random(2, 3, 4, 5) + 1], peer=by_reference, opset=13, **attributes)


@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_lrn(size):
    check("LRN", [random(2, 7, 3, 4) * 5], size=size, alpha=0.2, beta=0.6, bias=1.5)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lp_normalization(p, axis):
    check("LpNormalization", [np.abs(random(3, 4, 5)) + 0.1], axis=axis, p=p)


def test_lp_normalization_of_zeros():
    x = random(3, 4)
    x[1] = 0
    check("LpNormalization", [x], peer=by_onnxruntime)


@pytest.mark.parametrize(
    ("kind", "arrays", "attributes"),
    [
        ("LayerNormalization", [random(9, 33), random(33), random(33, seed=1)], {}),
        ("InstanceNormalization", [random(2, 5, 7, 3), random(5), random(5, seed=1)], {}),
        ("LRN", [random(1, 9, 4, 4)], {"size": 5}),
        ("LpNormalization", [random(5, 17)], {}),
        ("Softmax", [random(5, 17)], {}),
        ("LogSoftmax", [random(5, 17)], {"axis": 0}),
    ],
)
def test_generated_code(kind, arrays, attributes):
    check(kind, arrays, compiled=True, **attributes)


def test_refusals():
    vector = random(5)
    for arrays, attributes, message in [
        ([random(2, 4, 3), vector, vector, vector, vector], {}, r"scale has the shape \[5\]; expected \[4\]"),
    ]:
        model, _ = model_of("BatchNormalization", arrays, opset=15, **attributes)
        with pytest.raises(UserError, match=message):
            load_onnx(model)
    model, _ = model_of("GroupNormalization", [random(1, 4, 3), random(3), random(3)], opset=21, num_groups=3)
    with pytest.raises(UserError, match="num_groups is 3"):
        load_onnx(model)
    model, _ = model_of("Softmax", [random(2, 3)], axis=2)
    with pytest.raises(UserError, match="axis is 2"):
        load_onnx(model)


def test_an_operator_that_is_newer_than_the_operator_set_of_the_file() -> None:
    """ONNX Runtime writes LayerNormalization into files of older sets, with all its attributes."""
    arrays = [random(2, 6), random(6), random(6)]
    load_onnx(model_of("LayerNormalization", arrays, opset=13, stash_type=1)[0])
    with pytest.raises(UserError, match="'stash_type' is not supported with the value 11"):
        load_onnx(model_of("LayerNormalization", arrays, opset=13, stash_type=11)[0])
