"""Pooling against ONNX Runtime, and against ONNX's reference where that does more."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import check, kinds, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx

SPATIAL = {1: (13,), 2: (9, 10), 3: (5, 6, 7)}
WINDOWS = [
    {"kernel_shape": 2, "strides": 2},
    {"kernel_shape": 3},
    {"kernel_shape": 3, "strides": 2, "pads": 1},
    {"kernel_shape": 3, "strides": 2, "ceil_mode": 1},
    {"kernel_shape": 3, "strides": 2, "pads": 1, "ceil_mode": 1},
    {"kernel_shape": 2, "strides": 3, "ceil_mode": 1},
    {"kernel_shape": 3, "strides": 2, "auto_pad": "SAME_UPPER"},
    {"kernel_shape": 2, "strides": 1, "auto_pad": "SAME_LOWER"},
    {"kernel_shape": 3, "strides": 2, "auto_pad": "VALID"},
]


def full(rank, attributes):
    """One number per dimension where an attribute is a single one."""
    lists = {"kernel_shape": rank, "strides": rank, "dilations": rank, "pads": 2 * rank}
    return {k: [v] * lists[k] if k in lists and isinstance(v, int) else v for k, v in attributes.items()}


@pytest.mark.parametrize("attributes", [*WINDOWS, {"kernel_shape": 2, "dilations": 2, "pads": 1, "strides": 2}], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_max_pool(rank, attributes):
    x = random(2, 3, *SPATIAL[rank])
    graph = check("MaxPool", [x], **full(rank, attributes))
    assert kinds(graph) == ["transpose", "max_pool", "transpose"]


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("attributes", [WINDOWS[0], WINDOWS[2], WINDOWS[4], {"kernel_shape": 2, "dilations": 2}], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_positions(rank, attributes, order):
    x = np.round(random(2, 3, *SPATIAL[rank]) * 4)  # equal numbers: the first one counts
    check("MaxPool", [x], outputs=2, storage_order=order, **full(rank, attributes))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_max_pool_of_integers(kind):
    x = np.random.default_rng(0).integers(-100 if kind is np.int8 else 0, 100, (1, 2, 7, 7)).astype(kind)
    check("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("attributes", WINDOWS, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_average_pool(rank, attributes, count):
    x = random(2, 3, *SPATIAL[rank])
    check("AveragePool", [x], opset=19, count_include_pad=count, **full(rank, attributes))


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_average_pool_with_dilation(count, ceil_mode):
    attributes = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 2, 0, 1], "dilations": [2, 3]}
    check("AveragePool", [random(1, 2, 9, 10)], opset=19, count_include_pad=count, ceil_mode=ceil_mode, **attributes)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p):
    check("LpPool", [random(1, 2, 9, 10)], p=p, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    check("GlobalLpPool", [random(2, 3, 5, 4)], p=p)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_global(rank):
    for kind in ("GlobalAveragePool", "GlobalMaxPool"):
        check(kind, [random(2, 3, *SPATIAL[rank])])


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_generated_code(kind):
    check(kind, [random(1, 17, 9, 10)], compiled=True, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def test_generated_code_of_positions_and_global():
    check("MaxPool", [random(1, 5, 9, 10)], outputs=2, compiled=True, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    check("GlobalAveragePool", [random(2, 19, 5, 4)], compiled=True)
    check("GlobalMaxPool", [random(2, 19, 5, 4)], compiled=True)


def test_refusals():
    for attributes, message in [
        ({}, "'kernel_shape' is missing"),
        ({"kernel_shape": [3]}, "kernel_shape is .3."),
        ({"kernel_shape": [2, 2], "pads": [2, 2, 2, 2]}, "smaller than the kernel"),
    ]:
        model, _ = model_of("MaxPool", [random(1, 2, 8, 8)], **attributes)
        with pytest.raises(UserError, match=message):
            load_onnx(model)
