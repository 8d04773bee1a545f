"""Conv and ConvTranspose against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import by_reference, check, kinds, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx

SPATIAL = {1: (13,), 2: (9, 11), 3: (5, 6, 7)}


def conv(rank, channels, outputs, kernel, group=1, bias=True, compiled=False, opset=18, spatial=None, **attributes):
    x = random(2, channels, *(spatial or SPATIAL[rank]))
    w = random(outputs, channels // group, *kernel, seed=1)
    arrays = [x, w, random(outputs, seed=2)] if bias else [x, w]
    return check("Conv", arrays, constants=(1, 2), compiled=compiled, opset=opset, group=group, **attributes)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": 2, "pads": 1},
        {"dilations": 2, "pads": 2},
        {"strides": 2, "auto_pad": "SAME_UPPER"},
        {"strides": 2, "auto_pad": "SAME_LOWER"},
        {"strides": 3, "auto_pad": "VALID"},
    ],
    ids=str,
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv(rank, attributes, bias):
    full = {k: [v] * (2 * rank if k == "pads" else rank) if isinstance(v, int) else v for k, v in attributes.items()}
    graph = conv(rank, 3, 5, (3,) * rank, bias=bias, **full)
    assert kinds(graph) == ["transpose", "conv", *["add"] * bias, "transpose"]


@pytest.mark.parametrize(
    ("channels", "outputs", "group", "operator"),
    [(6, 8, 2, "conv"), (6, 6, 6, "depthwise_conv"), (3, 6, 3, "depthwise_conv"), (6, 3, 3, "conv"), (1, 4, 1, "conv")],
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_groups(rank, channels, outputs, group, operator):
    graph = conv(rank, channels, outputs, (3,) * rank, group, strides=[2] * rank, pads=[1] * 2 * rank)
    assert operator in kinds(graph)


def test_asymmetric_everything():
    conv(2, 3, 4, (3, 2), strides=[2, 3], pads=[0, 1, 2, 0], dilations=[1, 2], kernel_shape=[3, 2])
    conv(2, 4, 4, (2, 5), 4, strides=[1, 2], pads=[1, 0, 0, 3], dilations=[3, 1])


@pytest.mark.parametrize("kernel", [128, 257, 512])
def test_long_kernels(kernel):
    conv(1, 1, 6, (kernel,), spatial=(600,), strides=[64])


def test_weights_that_are_computed():
    check("Conv", [random(1, 2, 6, 6), random(3, 2, 3, 3, seed=1)], pads=[1, 1, 1, 1])
    check("Conv", [random(1, 4, 6, 6), random(4, 1, 3, 3, seed=1)], group=4)


@pytest.mark.parametrize(
    ("rank", "channels", "outputs", "group"),
    [(1, 7, 19, 1), (2, 17, 9, 1), (2, 6, 8, 2), (2, 18, 18, 18), (2, 9, 18, 9), (3, 3, 5, 1)],
)
def test_generated_code(rank, channels, outputs, group):
    conv(rank, channels, outputs, (3,) * rank, group, compiled=True, strides=[2] * rank, pads=[1] * 2 * rank)


def transposed(rank, channels, each, kernel, group=1, bias=True, compiled=False, spatial=None, **attributes):
    x = random(2, channels, *(spatial or [5, 4, 3][:rank]))
    w = random(channels, each, *kernel, seed=1)
    arrays = [x, w, random(each * group, seed=2)] if bias else [x, w]
    return check("ConvTranspose", arrays, constants=(1, 2), compiled=compiled, group=group, **attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": 2},
        {"strides": 2, "pads": 1, "output_padding": 1},
        {"strides": 3, "pads": 1},
        {"dilations": 2},
        {"strides": 2, "dilations": 2, "pads": 1},
        {"strides": 2, "auto_pad": "SAME_UPPER"},
        {"strides": 2, "auto_pad": "SAME_LOWER"},
        {"strides": 3, "auto_pad": "VALID"},
    ],
    ids=str,
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_transpose(rank, attributes):
    full = {k: [v] * (2 * rank if k == "pads" else rank) if isinstance(v, int) else v for k, v in attributes.items()}
    graph = transposed(rank, 3, 4, (3,) * rank, **full)
    assert kinds(graph) == ["transpose", "transposed_conv", "add", "transpose"]


@pytest.mark.parametrize(("channels", "each", "group"), [(4, 3, 2), (4, 1, 4), (4, 2, 4)])
@pytest.mark.parametrize("stride", [1, 2])
def test_transposed_groups(channels, each, group, stride):
    transposed(2, channels, each, (3, 4), group, strides=[stride] * 2, pads=[1, 0, 1, 2])


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("shape", [[10, 8], [9, 7], [11, 9]])
def test_output_shape(auto_pad, shape):
    transposed(2, 3, 2, (3, 3), strides=[2, 2], output_shape=shape, auto_pad=auto_pad)


@pytest.mark.parametrize(("channels", "each", "group"), [(5, 9, 1), (4, 3, 2), (18, 1, 18)])
def test_generated_code_of_transposed(channels, each, group):
    transposed(2, channels, each, (4, 4), group, strides=[2, 2], pads=[1, 1, 1, 1], compiled=True)


@pytest.mark.parametrize(
    ("arrays", "attributes", "message"),
    [
        ([random(1, 3, 8, 8), random(4, 2, 3, 3)], {}, "3 channels, a weight .4, 2, 3, 3. and 1 groups"),
        ([random(1, 3, 8, 8), random(4, 3, 3)], {}, "ranks must be equal"),
        ([random(1, 3, 8, 8), random(4, 3, 3, 3)], {"kernel_shape": [5, 5]}, "kernel_shape is .5, 5., the weight has .3, 3."),
        ([random(1, 3, 8, 8), random(4, 3, 3, 3)], {"strides": [1]}, "strides is .1.; expected 2"),
        ([random(1, 3, 8, 8), random(4, 3, 3, 3)], {"auto_pad": "SAME"}, "auto_pad is 'SAME'"),
        ([random(1, 3), random(4, 3)], {}, "1-3 spatial"),
        ([random(1, 3, 2, 2), random(4, 3, 3, 3)], {}, "window spans 3"),
    ],
)
def test_refusals(arrays, attributes, message):
    model, _ = model_of("Conv", arrays, constants=(1,), **attributes)
    with pytest.raises(UserError, match=message):
        load_onnx(model)


def test_half_precision_keeps_its_type():
    x, w = random(1, 3, 5, 5).astype(np.float16), random(2, 3, 3, 3).astype(np.float16)
    model, _ = model_of("Conv", [x, w], constants=(1,))
    graph = load_onnx(model)
    assert {v.dtype for node in graph.nodes for v in node.outputs} == {"f16"}


def test_dilation_with_same_padding_keeps_the_extents():  # which ONNX Runtime refuses
    x, w = random(1, 3, 9, 11), random(4, 3, 3, 3, seed=1)
    model, _ = model_of("Conv", [x, w], constants=(1,), dilations=[2, 3], auto_pad="SAME_UPPER")
    (node,) = [n for n in load_onnx(model).nodes if n.operator == "conv"]
    assert node.output.shape == (1, 9, 11, 4)
    assert node.attributes["padding"] == ((2, 2), (3, 3))


@pytest.mark.parametrize(
    ("columns", "image", "block", "attributes"),
    [
        ((2, 12, 20), (5, 6), (2, 2), {}),
        ((1, 8, 4), (5, 7), (2, 2), {"strides": [2, 3]}),  # the last rows and columns are in no block
        ((1, 4, 12), (4, 4), (2, 2), {"dilations": [2, 2], "pads": [1, 0, 1, 1]}),
        ((1, 16, 12), (3, 4, 5), (2, 2, 2), {"strides": [1, 1, 2], "pads": [0, 0, 0, 0, 0, 0]}),
    ],
)
def test_columns_to_image(columns, image, block, attributes) -> None:
    arrays = [random(*columns), np.array(image), np.array(block)]
    check("Col2Im", arrays, by_reference, opset=18, constants=(1, 2), **attributes)


@pytest.mark.parametrize(
    ("groups", "offset_groups", "size", "attributes"),
    [
        (1, 1, (4, 5), {}),
        (2, 1, (4, 5), {}),
        (1, 2, (4, 5), {"pads": [1, 0, 0, 1]}),
        (2, 2, (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2], "dilations": [1, 2]}),
    ],
)
def test_deformable_convolution(groups, offset_groups, size, attributes) -> None:
    """Offsets of up to two elements, so that some places lie outside of the image."""
    kernel = (2, 3)
    pads, steps, spans = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    extents = [
        (s - 1) * step + (k - 1) * d + 1 - low - high
        for s, step, k, d, low, high in zip(size, steps, kernel, spans, pads, pads[2:])
    ]
    x, weight = random(2, 4, *extents), random(6, 4 // groups, *kernel, seed=1)
    offsets, mask = random(2, offset_groups * 12, *size) * 2, random(2, offset_groups * 6, *size)
    arrays = [x, weight, offsets, random(6), mask]
    check("DeformConv", arrays, by_reference, compiled=True, opset=19, group=groups, offset_group=offset_groups, **attributes)
    check("DeformConv", arrays[:3], by_reference, opset=19, group=groups, offset_group=offset_groups, **attributes)
