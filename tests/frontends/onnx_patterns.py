"""Small graphs with the patterns of real models: what exporters write around the operators that people mean.

Each has the exporter it is known from, the versions of the operator set to write it in, and its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper
from tests.frontends.onnx_draft import BOOL, FLOAT, FLOAT16, INT32, INT64, Draft
from tests.frontends.onnx_nodes import random

END = np.iinfo(np.int64).max  # what exporters write for "to the end"


@dataclass(frozen=True)
class Pattern:
    """`write(g, *inputs)` adds the nodes and gives the name of the output, or a list of them."""

    exporter: str
    opsets: tuple[int, ...]
    inputs: dict[str, np.ndarray]
    write: Callable[..., Any]

    @property
    def name(self) -> str:
        return self.write.__name__

    def model(self, opset: int) -> Any:
        g = Draft(opset)
        made = self.write(g, *(g.input(name, array) for name, array in self.inputs.items()))
        return g.model([made] if isinstance(made, str) else list(made))


PATTERNS: list[Pattern] = []


def pattern(exporter: str, *opsets: int, **inputs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what writes a graph. An input given as a tuple is a shape of floats in -1..1."""
    arrays = {n: random(*a, seed=k) if isinstance(a, tuple) else a for k, (n, a) in enumerate(inputs.items())}

    def register(write: Callable[..., Any]) -> Callable[..., Any]:
        PATTERNS.append(Pattern(exporter, opsets, arrays, write))
        return write

    return register


def conv(g: Draft, x: str, outputs: int, inputs: int, kernel: int, **attributes: Any) -> str:
    return str(g("Conv", x, random(outputs, inputs, kernel, kernel, seed=9), random(outputs, seed=8), **attributes))


# -- tf2onnx, jax2tf ---------------------------------------------------------------------------------------------------


@pattern("tf2onnx", 9, 13, 18, x=(1, 8, 8, 3))
def transposes_around_a_convolution(g: Draft, x: str) -> str:
    y = conv(g, g("Transpose", x, perm=[0, 3, 1, 2]), 4, 3, 3, auto_pad="SAME_UPPER", strides=[2, 2])
    return g("Transpose", g("Relu", y), perm=[0, 2, 3, 1])


@pattern("tf2onnx", 13, 18, x=(1, 3, 7, 7))
def pad_as_inputs_before_a_valid_convolution(g: Draft, x: str) -> str:
    padded = g("Pad", x, [0, 0, 0, 0, 0, 0, 1, 1], 0.0)
    return conv(g, padded, 4, 3, 3, strides=[2, 2], auto_pad="VALID")


@pattern("tf2onnx", 9, 11, 13, x=(2, 1, 5, 1))
def squeeze_and_unsqueeze(g: Draft, x: str) -> str:
    return g("Relu", g.along("Unsqueeze", g.along("Squeeze", x, [1, 3]), [0, 3]))


@pattern("tf2onnx", 11, 13, x=(3, 4, 5))
def reshape_by_its_own_shape(g: Draft, x: str) -> str:
    whole = g("Cast", g("Shape", x), to=INT32)
    batch = g.along("Squeeze", g("Slice", whole, [0], [1], [0]), [0])
    rest = g("Concat", g.along("Unsqueeze", batch, [0]), g.constant([-1], "i4"), axis=0)
    return g("Reshape", x, g("Cast", rest, to=INT64))


@pattern("tf2onnx", 11, 13, x=(2, 6, 5, 3))
def strided_slice(g: Draft, x: str) -> str:
    return g("Slice", x, [0, 1, -1], [END, END, -END], [0, 1, 2], [1, 2, -1])


@pattern("tf2onnx", 10, 13, x=(2, 5, 4))
def slice_with_ends_as_int32(g: Draft, x: str) -> str:
    starts, ends, axes = (g.constant(v, "i4") for v in ([1], [np.iinfo(np.int32).max], [1]))
    return g("Slice", x, starts, ends, axes)


@pattern("tf2onnx", 13, 18, x=(2, 4, 6))
def fused_batch_norm_in_channels_last(g: Draft, x: str) -> str:
    y = g("Add", g("Mul", x, random(6)), random(6, seed=1))
    return g("Max", y, g("Mul", y, 0.2))


@pattern("tf2onnx", 13, x=(2, 3, 8))
def layer_norm_by_moments(g: Draft, x: str) -> str:
    mean = g("ReduceMean", x, axes=[-1], keepdims=1)
    off = g("Sub", x, mean)
    variance = g("ReduceMean", g("Mul", off, off), axes=[-1], keepdims=1)
    scale = g("Mul", g("Reciprocal", g("Sqrt", g("Add", variance, 1e-3))), random(8))
    return g("Add", g("Mul", x, scale), g("Sub", random(8, seed=1), g("Mul", mean, scale)))


@pattern("tf2onnx", 13, 18, x=(2, 3, 8))
def sum_with_noop_and_axes(g: Draft, x: str) -> str:
    return g("ReduceSum", x, [1], keepdims=0, noop_with_empty_axes=1)


@pattern("jax2tf", 13, 18, x=(2, 3, 4))
def sum_of_nothing_with_noop(g: Draft, x: str) -> list[str]:
    return [g("ReduceSum", x, g.constant([], "i8"), noop_with_empty_axes=1), g("ReduceSum", x, noop_with_empty_axes=0)]


@pattern("jax2tf", 12, 13, x=(2, 3, 4), w=(4, 2, 5))
def einsum_of_heads(g: Draft, x: str, w: str) -> list[str]:
    y = g("Einsum", x, w, equation="btd,dhk->bthk")
    return [y, g("Einsum", y, y, equation="bthd,bThd->bhtT")]


@pattern("jax2tf", 13, i=np.array([[1], [4], [-1]], np.int64), x=(6, 3))
def gather_nd_of_rows(g: Draft, i: str, x: str) -> str:
    wrapped = g("Where", g("Less", i, 0), g("Add", i, 6), i)
    return g("GatherND", x, wrapped)


@pattern("jax2tf", 13, 18, x=(2, 7))
def argmax_as_int32(g: Draft, x: str) -> str:
    return g("Cast", g("ArgMax", x, axis=1, keepdims=0, select_last_index=0), to=INT32)


@pattern("tf2onnx", 9, 11, x=(1, 2, 3, 4))
def upsample_as_it_was(g: Draft, x: str) -> str:
    scales = np.array([1, 1, 2, 2], "f4")
    if g.opset < 10:
        return g("Upsample", x, scales, mode="nearest")
    return g(
        "Resize", x, g.constant([], "f4"), scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


@pattern("tf2onnx", 11, 13, 18, x=(1, 2, 4, 4))
def resize_bilinear_to_sizes(g: Draft, x: str) -> str:
    size = g("Concat", g("Slice", g("Shape", x), [0], [2], [0]), g.constant([8, 6]), axis=0)
    none = g.constant([], "f4") if g.opset < 13 else None
    return g("Resize", x, none, none, size, mode="linear", coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.5)


@pattern("tf2onnx", 13, x=(2, 4, 3), n=np.array([4, 2], np.int32))
def keras_lstm(g: Draft, x: str, n: str) -> list[str]:
    steps = g("Transpose", x, perm=[1, 0, 2])
    y, h, c = g(
        "LSTM",
        steps,
        random(1, 20, 3),
        random(1, 20, 5),
        random(1, 40),
        n,
        None,
        None,
        outputs=3,
        hidden_size=5,
        direction="forward",
    )
    return [g("Transpose", g.along("Squeeze", y, [1]), perm=[1, 0, 2]), g.along("Squeeze", h, [0]), c]


@pattern("keras2onnx", 10, 14, x=(3, 2, 4))
def keras_gru(g: Draft, x: str) -> list[str]:
    y, h = g(
        "GRU", x, random(1, 15, 4), random(1, 15, 5), random(1, 30), None, np.zeros((1, 2, 5), "f4"), outputs=2, hidden_size=5,
        activations=["Sigmoid", "Tanh"], linear_before_reset=1, direction="reverse", clip=3.0,
    )  # fmt: skip
    return [y, h]


@pattern("keras2onnx", 10, 13, x=(2, 3, 6))
def keras_dense_of_three_dimensions(g: Draft, x: str) -> str:
    y = g("MatMul", g("Reshape", x, [-1, 6]), random(6, 4))
    return g("Softmax", g("Reshape", g("Add", y, random(4)), [2, 3, 4]), axis=-1 if g.opset >= 13 else 2)


@pattern("keras", 13, 18, x=(2, 5, 3))
def keras_one_dimensional_convolution(g: Draft, x: str) -> str:
    turned = g("Transpose", x, perm=[0, 2, 1])
    y = g("Conv", turned, random(4, 3, 3), random(4), auto_pad="SAME_LOWER", kernel_shape=[3], dilations=[1], group=1)
    return g("Transpose", g("Elu", y, alpha=1.0), perm=[0, 2, 1])


@pattern("keras", 13, x=(1, 4, 5, 5))
def separable_convolution(g: Draft, x: str) -> str:
    y = g("Conv", x, random(4, 1, 3, 3), group=4, pads=[1, 1, 1, 1], kernel_shape=[3, 3], strides=[1, 1])
    return g("Clip", conv(g, y, 6, 4, 1), 0.0, 6.0)


# -- PaddlePaddle ------------------------------------------------------------------------------------------------------


@pattern("paddle2onnx", 11, 13, x=(1, 4, 6, 6))
def hard_swish_of_parts(g: Draft, x: str) -> str:
    shifted = g("Clip", g("Add", x, 3.0), g.constant(0.0), g.constant(6.0))
    return g("Div", g("Mul", x, shifted), 6.0)


@pattern("paddle2onnx", 11, 14, x=(1, 4, 6, 6))
def squeeze_and_excite_with_hard_sigmoid(g: Draft, x: str) -> str:
    y = conv(g, g("Relu", conv(g, g("GlobalAveragePool", x), 2, 4, 1)), 4, 2, 1)
    y = g("HardSigmoid", y, alpha=0.2, beta=0.5)
    return g("HardSwish", g("Mul", x, y)) if g.opset >= 14 else g("Mul", x, y)


@pattern("paddle2onnx", 11, x=(1, 2, 4, 4))
def resize_with_an_empty_region(g: Draft, x: str) -> str:
    scales = np.array([1, 1, 2, 2], "f4")
    return g(
        "Resize",
        x,
        g.constant([], "f4"),
        scales,
        mode="linear",
        coordinate_transformation_mode="align_corners",
        nearest_mode="floor",
    )


@pattern("paddle2onnx", 11, 13, x=(2, 3, 4))
def shape_of_a_flattening(g: Draft, x: str) -> str:
    return g("Reshape", x, g("Concat", g("Slice", g("Shape", x), [0], [1], [0]), g.constant([-1]), axis=0))


@pattern("paddle2onnx", 9, 11, x=(1, 3, 4, 4))
def batch_norm_with_all_its_attributes(g: Draft, x: str) -> str:
    mean, deviation = random(3, seed=2), np.abs(random(3, seed=3)) + 0.5
    return g("BatchNormalization", x, random(3), random(3, seed=1), mean, deviation, epsilon=1e-5, momentum=0.9)


@pattern("paddle2onnx", 11, x=(2, 6))
def split_by_sizes_as_attribute(g: Draft, x: str) -> list[str]:
    return list(g("Split", x, outputs=3, split=[1, 2, 3], axis=1))


@pattern("paddle2onnx", 11, 13, x=(1, 4, 5, 5))
def average_pool_without_padding_in_the_count(g: Draft, x: str) -> str:
    return g("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=0, count_include_pad=0)


@pattern("paddle2onnx", 11, 13, x=(2, 3, 4))
def softmax_along_a_middle_axis(g: Draft, x: str) -> str:
    if g.opset >= 13:
        return g("Softmax", x, axis=1)
    return g("Transpose", g("Softmax", g("Transpose", x, perm=[0, 2, 1]), axis=2), perm=[0, 2, 1])


# -- PyTorch, by tracing -----------------------------------------------------------------------------------------------


@pattern("torch (TorchScript)", 9, 11, 13, 17, x=(2, 3, 8))
def view_by_sizes(g: Draft, x: str) -> str:
    """x.view(x.size(0), x.size(1), 2, -1): Shape, Gather, Unsqueeze, Concat, Reshape."""
    sizes = [g.along("Unsqueeze", g("Gather", g("Shape", x), g.constant(n), axis=0), [0]) for n in (0, 1)]
    return g("Reshape", x, g("Concat", *sizes, g("Constant", value_ints=[2]) if g.opset >= 12 else [2], [-1], axis=0))


@pattern("torch (TorchScript)", 11, 17, x=(2, 4, 6), m=np.array([[1, 1, 0, 1], [1, 0, 0, 1]], np.int64))
def attention_with_a_mask_of_minus_infinity(g: Draft, x: str, m: str) -> str:
    scores = g("Div", g("MatMul", x, g("Transpose", x, perm=[0, 2, 1])), g("Sqrt", 6.0))
    off = g("Equal", g.along("Unsqueeze", m, [1]), 0)
    shape = g("ConstantOfShape", g("Shape", g("Shape", scores)), value=helper.make_tensor("one", INT64, [1], [1]))
    wide = g("Expand", off, g("Mul", shape, g("Shape", scores)))
    masked = g("Where", wide, np.float32(-np.inf), scores)
    return g("MatMul", g("Softmax", masked, axis=2), x)


@pattern("torch (TorchScript)", 11, 13, x=(2, 3, 8))
def erf_gelu(g: Draft, x: str) -> str:
    return g("Mul", g("Mul", x, g("Add", g("Erf", g("Div", x, np.float32(1.4142135))), 1.0)), 0.5)


@pattern("torch (TorchScript)", 11, 14, x=(2, 3, 8))
def layer_norm_by_pow(g: Draft, x: str) -> str:
    off = g("Sub", x, g("ReduceMean", x, axes=[-1]))
    variance = g("ReduceMean", g("Pow", off, 2.0), axes=[-1])
    return g("Add", g("Mul", g("Div", off, g("Sqrt", g("Add", variance, 1e-12))), random(8)), random(8, seed=1))


@pattern("torch (TorchScript)", 9, 11, 13, x=(1, 3, 4, 4))
def clip_with_one_limit(g: Draft, x: str) -> list[str]:
    if g.opset < 11:
        return [g("Clip", x, min=0.0), g("Clip", x, max=0.5), g("Clip", x, min=-3.4028234663852886e38, max=0.25)]
    return [g("Clip", x, 0.0), g("Clip", x, None, 0.5), g("Clip", x, None, None)]


@pattern("torch (TorchScript)", 9, 12, 15, x=(1, 3, 4, 4))
def batch_norm_in_inference_and_dropout(g: Draft, x: str) -> list[str]:
    mean, deviation = random(3, seed=2), np.abs(random(3, seed=3)) + 0.5
    more = {"training_mode": 0} if g.opset >= 14 else {}
    y = g("BatchNormalization", x, random(3), random(3, seed=1), mean, deviation, epsilon=1e-3, momentum=0.99, **more)
    if g.opset < 12:
        return [g("Dropout", y, outputs=2, ratio=0.5)[0]]
    dropped, mask = g("Dropout", y, 0.5, False, outputs=2)
    return [dropped, mask]


@pattern("torch (TorchScript)", 11, 13, x=(2, 5))
def embedding_and_positions(g: Draft, x: str) -> str:
    """Positions by Range from a shape, cast back and forth."""
    length = g("Cast", g("Gather", g("Shape", x), g.constant(1)), to=INT64)
    places = g("Range", g.constant(0), length, g.constant(1))
    wide = g("Expand", g.along("Unsqueeze", places, [0]), g("Shape", x))
    return g("Gather", random(9, 4), wide)


@pattern("torch (TorchScript)", 11, 13, x=(4, 6))
def slice_chain(g: Draft, x: str) -> str:
    return g("Slice", g("Slice", x, [1], [END], [0], [1]), [-3], [END], [1], [1])


@pattern("torch (TorchScript)", 11, 16, x=(2, 3, 4))
def index_put(g: Draft, x: str) -> str:
    """x[:, 1] = 0 by ScatterND."""
    places = np.array([[[n, 1, k] for k in range(4)] for n in range(2)], np.int64)
    return g("ScatterND", x, places, np.zeros((2, 4), "f4"))


@pattern("torch (TorchScript)", 11, 13, x=(2, 9))
def top_k_and_gather_elements(g: Draft, x: str) -> list[str]:
    values, places = g("TopK", x, [3], outputs=2, axis=-1, largest=1, sorted=1)
    return [values, g("GatherElements", x, places, axis=1), g("Cast", places, to=FLOAT)]


@pattern("torch (TorchScript)", 13, x=(2, 3, 4))
def chunk(g: Draft, x: str) -> list[str]:
    return list(g("Split", x, [2, 2], outputs=2, axis=2))


@pattern("torch (TorchScript)", 11, 13, 18, x=(1, 2, 5, 5))
def interpolate_by_scales(g: Draft, x: str) -> list[str]:
    scales = np.array([1, 1, 2, 2], "f4")
    cubic = {
        "mode": "cubic",
        "coordinate_transformation_mode": "pytorch_half_pixel",
        "cubic_coeff_a": -0.75,
        "nearest_mode": "floor",
    }
    plain = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    none = g.constant([], "f4") if g.opset < 13 else None
    return [g("Resize", x, none, scales, **cubic), g("Resize", x, none, scales, **plain)]


@pattern("torch (TorchScript)", 11, 13, x=(1, 2, 5, 5))
def pads_of_all_modes(g: Draft, x: str) -> list[str]:
    pads = g("Cast", g.constant([0, 0, 1, 2, 0, 0, 2, 1], "i4"), to=INT64)
    return [g("Pad", x, pads, mode="reflect"), g("Pad", x, pads, mode="edge"), g("Pad", x, pads, -1.0, mode="constant")]


@pattern("torch (TorchScript)", 9, 13, x=(3, 2, 4))
def bidirectional_lstm(g: Draft, x: str) -> list[str]:
    zero = np.zeros((2, 2, 5), "f4")
    y, h, c = g(
        "LSTM", x, random(2, 20, 4), random(2, 20, 5), random(2, 40), None, zero, zero, outputs=3, hidden_size=5,
        direction="bidirectional",
    )  # fmt: skip
    return [g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, -1]), h, c]


@pattern("torch (TorchScript)", 11, 13, x=(2, 4, 3, 3))
def pixel_shuffle_and_instance_norm(g: Draft, x: str) -> str:
    y = g("InstanceNormalization", x, random(4), random(4, seed=1), epsilon=1e-5)
    return g("DepthToSpace", y, blocksize=2, mode="CRD")


@pattern("torch (TorchScript)", 11, 13, x=(2, 4, 6))
def group_norm_by_instance_norm(g: Draft, x: str) -> str:
    rows = g("Reshape", x, [0, 2, -1])
    y = g("Reshape", g("InstanceNormalization", rows, np.ones(2, "f4"), np.zeros(2, "f4")), g("Shape", x))
    return g("Add", g("Mul", y, random(4, 1)), random(4, 1, seed=1))


@pattern("torch (TorchScript)", 9, 13, x=(1, 4, 5, 5))
def prelu_and_leaky_relu(g: Draft, x: str) -> str:
    return g("LeakyRelu", g("PRelu", x, random(4, 1, 1)), alpha=0.1)


@pattern("torch (TorchScript)", 11, 13, x=(1, 3, 4, 4))
def transposed_convolution(g: Draft, x: str) -> str:
    return g(
        "ConvTranspose", x, random(3, 2, 3, 3), random(2), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1],
        dilations=[1, 1], group=1, kernel_shape=[3, 3],
    )  # fmt: skip


@pattern("torch (TorchScript)", 11, 13, x=(2, 3))
def if_of_a_shape(g: Draft, x: str) -> str:
    """Squeezes if a dimension is 1: the condition is known when the model is compiled."""
    one = g("Equal", g("Gather", g("Shape", x), g.constant(0)), g.constant(1))
    then = g.body("then", [], ["a"], [helper.make_node("Neg", [x], ["a"])])
    other = g.body("else", [], ["b"], [helper.make_node("Relu", [x], ["b"])])
    return g("If", one, then_branch=then, else_branch=other)


@pattern("torch (TorchScript)", 11, 13, x=(2, 3))
def loop_of_a_known_number(g: Draft, x: str) -> str:
    nodes = [
        helper.make_node("Identity", ["going"], ["still"]),
        helper.make_node("Cast", ["n"], ["f"], to=FLOAT),
        helper.make_node("Add", ["v", "f"], ["w"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in (("n", INT64, []), ("going", BOOL, []), ("v", FLOAT, [2, 3]))],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in (("still", BOOL, []), ("w", FLOAT, [2, 3]))],
    )
    return g("Loop", g.constant(3), g.constant(True), x, body=body)


@pattern("torch (TorchScript)", 12, 14, x=(2, 3, 4), m=np.array([[True, False, True], [False, True, True]]))
def masked_mean(g: Draft, x: str, m: str) -> str:
    flags = g("Cast", g.along("Unsqueeze", m, [-1]), to=FLOAT)
    total = g.along("ReduceSum", g("Mul", x, flags), [1], keepdims=0)
    return g("Div", total, g("Clip", g.along("ReduceSum", flags, [1], keepdims=0), 1e-9))


@pattern("torch (TorchScript)", 11, 13, x=(5, 5))
def triangular_mask(g: Draft, x: str) -> str:
    n = g("Gather", g("Shape", x), g.constant(0))
    places = g("Range", g.constant(0), n, g.constant(1))
    later = g("Greater", g.along("Unsqueeze", places, [0]), g.along("Unsqueeze", places, [1]))
    return g("Softmax", g("Where", later, np.float32(-3.4e38), x), axis=1)


@pattern("torch (TorchScript)", 13, x=(2, 3, 4))
def casts_to_half_and_back(g: Draft, x: str) -> str:
    y = g("Cast", g("Cast", g("Cast", x, to=FLOAT16), to=FLOAT), to=FLOAT)
    return g("Add", y, g("CastLike", g.constant(1), y) if g.opset >= 15 else g("Cast", g.constant(1), to=FLOAT))


# -- PyTorch, by torch.export ------------------------------------------------------------------------------------------


@pattern("torch (dynamo)", 18, x=(2, 3, 8))
def mean_with_axes_as_input(g: Draft, x: str) -> str:
    return g("ReduceMean", x, [-1], noop_with_empty_axes=0, keepdims=1)


@pattern("torch (dynamo)", 18, 20, x=(2, 7))
def split_into_a_number_of_parts(g: Draft, x: str) -> list[str]:
    return list(g("Split", x, outputs=3, axis=1, num_outputs=3))


@pattern("torch (dynamo)", 18, x=(2, 3, 8))
def norm_and_gelu_of_the_standard(g: Draft, x: str) -> str:
    y = g("LayerNormalization", x, random(8), random(8, seed=1), axis=-1, epsilon=1e-5, stash_type=1)
    half = g("Mul", g.constant(np.float32(0.5)), y)
    return g("Mul", half, g("Add", g("Erf", g("Mul", y, np.float32(0.70710678))), 1.0))


@pattern("torch (dynamo)", 20, x=(2, 3, 8))
def gelu_by_tanh(g: Draft, x: str) -> str:
    return g("Gelu", x, approximate="tanh")


@pattern("torch (dynamo)", 18, x=(2, 3, 8))
def view_that_allows_zeros(g: Draft, x: str) -> str:
    shape = g("Concat", g("Shape", x, start=0, end=1), g.constant([24]), axis=0)
    return g("Reshape", x, shape, allowzero=1)


@pattern("torch (dynamo)", 18, q=(1, 2, 4, 8), k=(1, 2, 5, 8), v=(1, 2, 5, 8))
def scaled_dot_product_attention(g: Draft, q: str, k: str, v: str) -> str:
    size = g("Cast", g("Slice", g("Shape", q), [-1], [END]), to=FLOAT)
    scale = g("Sqrt", g("Div", 1.0, g("Sqrt", size)))
    scores = g("MatMul", g("Mul", q, scale), g("Mul", g("Transpose", k, perm=[0, 1, 3, 2]), scale))
    return g("MatMul", g("Softmax", scores, axis=-1), v)


@pattern("torch (dynamo)", 18, x=(2, 6, 4))
def rotary_halves(g: Draft, x: str) -> str:
    first, second = (g("Slice", x, [a], [b], [2], [1]) for a, b in ((0, 2), (2, END)))
    turned = g("Concat", g("Neg", second), first, axis=-1)
    return g("Add", g("Mul", x, random(6, 4)), g("Mul", turned, random(6, 4, seed=1)))


@pattern("torch (dynamo)", 18, x=(1, 2, 6, 6))
def max_pool_with_every_attribute(g: Draft, x: str) -> str:
    return g(
        "MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], dilations=[1, 1], ceil_mode=1, storage_order=0,
        auto_pad="NOTSET",
    )  # fmt: skip


@pattern("torch (dynamo)", 18, x=(3, 4))
def cumulative_positions(g: Draft, x: str) -> str:
    flags = g("Cast", g("Greater", x, 0.0), to=INT64)
    return g("Mul", g("CumSum", flags, g.constant(1), exclusive=0, reverse=0), flags)


# -- scikit-learn, where it is tensors ---------------------------------------------------------------------------------


@pattern("skl2onnx", 11, 15, x=(4, 3))
def distances_to_centres(g: Draft, x: str) -> list[str]:
    """KMeans: the squares by ReduceSumSquare, the products by Gemm with factors."""
    centres = random(5, 3, seed=3)
    squares = g("ReduceSumSquare", x, axes=[1], keepdims=1)
    both = g("Gemm", x, centres, squares, alpha=-2.0, transB=1)
    distance = g("Add", both, (centres**2).sum(1))
    return [g("ArgMin", distance, axis=1, keepdims=0), g("Sqrt", distance)]


@pattern("skl2onnx", 12, 15, x=(4, 3))
def logistic_regression(g: Draft, x: str) -> list[str]:
    scaled = g("Div", g("Sub", x, random(3)), np.array([0.5, 2, 1], "f4"))
    scores = g("Softmax", g("Add", g("MatMul", scaled, random(3, 4)), random(4)), axis=1)
    best = g("ArgMax", scores, axis=1, keepdims=0)
    labels = g("Gather", np.array([10, 20, 30, 40]), best)
    return [g("Cast", labels, to=INT32), g("Identity", scores)]


# -- ONNX Runtime's quantiser, optimum ---------------------------------------------------------------------------------

SCALE, ZERO = np.float32(0.02), np.uint8(120)


def dequantised(g: Draft, array: np.ndarray, scale: Any, zero: Any, **attributes: Any) -> str:
    return str(g("DequantizeLinear", array, scale, zero, **attributes))


def bytes_of(*shape: int) -> np.ndarray:
    return (random(*shape) * 127).astype(np.int8)


@pattern("onnxruntime QDQ", 13, x=(2, 3, 6, 6))
def convolution_between_quantised_tensors(g: Draft, x: str) -> str:
    """Weights of i8 with a scale per channel, a bias of i32, activations of u8."""
    given = g("DequantizeLinear", g("QuantizeLinear", x, SCALE, ZERO), SCALE, ZERO)
    scales = np.array([0.01, 0.02, 0.005, 0.01], "f4")
    weight = dequantised(g, bytes_of(4, 3, 3, 3), scales, np.zeros(4, np.int8), axis=0)
    bias = dequantised(g, np.array([100, -200, 300, 0], np.int32), scales * SCALE, np.zeros(4, np.int32), axis=0)
    y = g("Relu", g("Conv", given, weight, bias, pads=[1, 1, 1, 1]))
    return g("DequantizeLinear", g("QuantizeLinear", y, np.float32(0.05), np.uint8(0)), np.float32(0.05), np.uint8(0))


@pattern("onnxruntime QDQ", 13, x=(3, 8))
def product_between_quantised_tensors(g: Draft, x: str) -> str:
    given = g("DequantizeLinear", g("QuantizeLinear", x, SCALE, ZERO, axis=1), SCALE, ZERO)
    y = g("MatMul", given, dequantised(g, bytes_of(8, 5), np.float32(0.01), np.int8(0)))
    return g("DequantizeLinear", g("QuantizeLinear", g("Add", y, random(5)), SCALE, ZERO), SCALE, ZERO)


@pattern("onnxruntime QOperator", 13, x=(2, 3, 6, 6))
def linear_convolution(g: Draft, x: str) -> str:
    q = g("QuantizeLinear", x, SCALE, ZERO)
    more = (np.float32(0.1), np.uint8(128), np.array([5, -3, 2, 1], np.int32))
    return g("QLinearConv", q, SCALE, ZERO, bytes_of(4, 3, 3, 3), np.float32(0.01), np.int8(0), *more, pads=[1, 1, 1, 1])


@pattern("onnxruntime QOperator", 13, x=(3, 8))
def linear_product(g: Draft, x: str) -> str:
    q = g("QuantizeLinear", x, SCALE, ZERO)
    return g("QLinearMatMul", q, SCALE, ZERO, bytes_of(8, 5), np.float32(0.01), np.int8(0), np.float32(0.05), np.uint8(128))


@pattern("onnxruntime, dynamic", 11, 13, x=(3, 8))
def product_of_integers(g: Draft, x: str) -> str:
    q, scale, zero = g("DynamicQuantizeLinear", x, outputs=3)
    y = g("Cast", g("MatMulInteger", q, bytes_of(8, 5), zero, np.int8(0)), to=FLOAT)
    return g("Add", g("Mul", y, g("Mul", scale, np.float32(0.01))), random(5))


@pattern("optimum", 13, i=np.array([[3, 1, 4, 0]], np.int64), m=np.array([[1, 1, 1, 0]], np.int64))
def text_encoder_inputs(g: Draft, i: str, m: str) -> str:
    """Words, and a mask as BERT makes it: (1 - mask) times the smallest float."""
    words = g("Gather", random(7, 4), i)
    mask = g("Cast", g.along("Unsqueeze", g.along("Unsqueeze", m, [1]), [2]), to=FLOAT)
    bias = g("Mul", g("Sub", 1.0, mask), np.float32(np.finfo(np.float32).min))
    scores = g.along("Unsqueeze", g("MatMul", words, g("Transpose", words, perm=[0, 2, 1])), [1])
    return g("Softmax", g("Add", scores, bias), axis=-1)


@pattern("optimum", 13, x=(1, 3, 4), past=(1, 2, 4))
def keys_of_the_past(g: Draft, x: str, past: str) -> list[str]:
    whole = g("Concat", past, x, axis=-2)
    length = g("Sub", g("Gather", g("Shape", whole), g.constant(1)), g("Gather", g("Shape", x), g.constant(1)))
    last = g("Slice", whole, g.along("Unsqueeze", length, [0]), [END], [1])
    return [whole, last]
