"""Quantised graphs in integers: exact sums, zero points, requantising, and the operators that are made of them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from tests.graph.quantised import KINDS, Layer, centred_input, centred_weight, layer, network, operators, requantised

import tensorsmith as ts
from tensorsmith.graph import integer
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.model import Model

PAIRS = [(a, b) for a in KINDS for b in KINDS]


def drawn(rng, shape) -> np.ndarray:
    return (rng.standard_normal(shape) * 3).astype(np.float32)


def exactly(model: Model, given: Layer, x: np.ndarray, sums: np.ndarray) -> None:
    """The network, compiled and by the reference evaluator on its passes' graph, gives the exact answer."""
    wanted = requantised(sums + given.bias, given.factor, given.y_zero, given.relu)
    (found,) = evaluate(model.graph, {"x": x}).values()
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(ts.compile(model)(x), wanted)
    real = evaluate(model.source, {"x": x})["y"].astype(int)  # in f32, as it is written: a step off where it is rounded otherwise
    assert np.abs(real - wanted.astype(int)).max(initial=0) <= 1


@pytest.mark.parametrize("ends", [False, True], ids=["anywhere", "ends"])
@pytest.mark.parametrize("kind, w_kind", PAIRS, ids=lambda v: str(v))
def test_matrix_products(kind, w_kind, ends):
    rng = np.random.default_rng(1)
    for rows, depth, columns, per_channel in ((5, 7, 19, True), (16, 64, 33, False)):
        given = layer(rng, (depth, columns), kind, w_kind, per_channel, ends)
        x = drawn(rng, (rows, depth))
        model = network(given, (rows, depth), "matmul")
        assert "integer_matmul" in operators(model.graph) and "requantize" in operators(model.graph)
        exactly(model, given, x, centred_input(given, x) @ centred_weight(given))


def convolved(x: np.ndarray, w: np.ndarray, pad: int, depthwise: bool) -> np.ndarray:
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    kernel, places = w.shape[0], x.shape[1] - w.shape[0] + 1
    total = np.zeros((1, places, places, w.shape[-1]), np.int64)
    for y in range(kernel):
        for z in range(kernel):
            seen = x[:, y : y + places, z : z + places]
            total += seen * w[y, z] if depthwise else seen @ w[y, z]
    return total


@pytest.mark.parametrize("ends", [False, True], ids=["anywhere", "ends"])
@pytest.mark.parametrize("depthwise", [False, True], ids=["conv", "depthwise"])
@pytest.mark.parametrize("kind, w_kind", PAIRS, ids=lambda v: str(v))
def test_convolutions_with_padding(kind, w_kind, depthwise, ends):
    rng = np.random.default_rng(2)
    for size, channels, outputs, kernel, per_channel in ((7, 6, 18, 3, True), (5, 3, 9, 1, False)):
        shape = (kernel, kernel, outputs) if depthwise else (kernel, kernel, channels, outputs)
        given = layer(rng, shape, kind, w_kind, per_channel, ends)
        x = drawn(rng, (1, size, size, outputs if depthwise else channels))
        pad = kernel // 2
        options = {"stride": (1, 1), "padding": ((pad, pad), (pad, pad)), "dilation": (1, 1)}
        model = network(given, x.shape, "depthwise_conv" if depthwise else "conv", **options)
        exactly(model, given, x, convolved(centred_input(given, x), centred_weight(given), pad, depthwise))


def test_the_pass_can_be_switched_off():
    rng = np.random.default_rng(3)
    given = layer(rng, (32, 8), "u8", "i8", True, False)
    model = network(given, (4, 32), "matmul")
    in_floats = model.with_integers(False)
    assert "matmul" in operators(in_floats.graph) and "integer_matmul" not in operators(in_floats.graph)
    assert "dequantize" not in [n.operator for n in in_floats.graph.nodes if not set(n.inputs) - set(in_floats.graph.constants)]
    x = drawn(rng, (4, 32))
    one, other = ts.compile(model)(x).astype(int), ts.compile(model, integers=False)(x).astype(int)
    assert np.abs(one - other).max() <= 1
    assert pickle.loads(pickle.dumps(in_floats)).integers is False
    assert pickle.loads(pickle.dumps(model)).integers is True


@pytest.mark.parametrize("integers", [True, False])
def test_what_is_compiled_again_for_another_machine_is_computed_in_the_same_way(integers: bool) -> None:
    """As `export(target=...)` does it."""
    model = residual()
    made = ts.compile(model, integers=integers)
    assert made.origin is not None
    again = made.origin.compile(made.origin.computation(), ts.Target.native())
    assert [k.result for k in again.network.kernels] == [k.result for k in made.network.kernels]
    other = ts.compile(model, integers=not integers)
    assert [k.result for k in again.network.kernels] != [k.result for k in other.network.kernels]


def test_a_bias_that_is_no_whole_number_of_products_is_added_in_f32():
    rng = np.random.default_rng(4)
    given = layer(rng, (16, 8), "u8", "i8", True, False)
    b = Builder("biased")
    x = b.input("x", (3, 16), "u8")
    real = b.add("dequantize", [x, b.constant(given.x_scale), b.constant(np.uint8(0))])
    weight = b.add("dequantize", [b.constant(given.weight), b.constant(given.w_scale), b.constant(given.w_zero)])
    added = rng.standard_normal(8).astype(np.float32)
    made = b.add("add", [b.add("matmul", [real, weight]), b.constant(added)])
    b.output("y", b.add("quantize", [made, b.constant(given.y_scale), b.constant(np.uint8(9))], dtype="u8"))
    model = Model.from_graph(b.graph())
    assert "integer_matmul" in operators(model.graph) and "requantize" not in operators(model.graph)
    data = rng.integers(0, 256, (3, 16)).astype(np.uint8)
    sums = (data.astype(np.int64) @ centred_weight(given)).astype(np.float32)
    wanted = np.clip(np.rint((sums * given.sums_scale + added) / given.y_scale) + np.float32(9), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(ts.compile(model)(data), wanted)


@pytest.mark.parametrize("left, right", PAIRS, ids=lambda v: str(v))
@pytest.mark.parametrize("known", [False, True], ids=["computed", "constant"])
def test_zero_points_are_taken_off(left, right, known):
    """Of both sides of a product, wherever they are, whether the right side is a constant or not."""
    rng = np.random.default_rng(5)
    for x_zero, w_zero in ((0, 0), (3, 0), (0, 7), (100, 90), (127, 127)):
        a = rng.integers(0, 100, (2, 4, 9)).astype(KINDS[left])
        w = rng.integers(0, 100, (9, 5) if known else (2, 9, 5)).astype(KINDS[right])
        b = Builder("product")
        given = {"a": a} if known else {"a": a, "w": w}
        x = b.input("a", a.shape, left)
        y = b.constant(w) if known else b.input("w", w.shape, right)
        made = integer.product(b, x, b.constant(np.array(x_zero, KINDS[left])), y, b.constant(np.array(w_zero, KINDS[right])))
        assert made is not None
        b.output("y", made)
        model = Model.from_graph(b.graph())
        wanted = (a.astype(int) - x_zero) @ (w.astype(int) - w_zero)
        np.testing.assert_array_equal(evaluate(model.source, given)["y"], wanted)
        np.testing.assert_array_equal(ts.compile(model)(*given.values()), wanted)


def test_scales_along_the_depth_are_left_to_floats():
    """A sum of products with different scales is none of bytes."""
    rng = np.random.default_rng(6)
    given = layer(rng, (8, 8), "u8", "i8", False, False)
    b = Builder("rows")
    x = b.input("x", (3, 8), "u8")
    real = b.add("dequantize", [x, b.constant(np.float32(0.1))])
    rows = b.constant((rng.random((8, 1)) + 0.1).astype(np.float32))
    weight = b.add("dequantize", [b.constant(given.weight), rows])
    b.output("y", b.add("matmul", [real, weight]))
    model = Model.from_graph(b.graph())
    assert "matmul" in operators(model.graph)
    data = rng.integers(0, 256, (3, 8)).astype(np.uint8)
    np.testing.assert_allclose(ts.compile(model)(data), evaluate(model.source, {"x": data})["y"], rtol=1e-5)


@pytest.mark.parametrize("low, high", [(0.0, 6.0), (-1.0, 1.0), (0.0, 1e9), (-1e9, 0.5), (3.0, 3.0)])
def test_a_clip_is_a_limit_of_bytes(low, high):
    rng = np.random.default_rng(7)
    given = layer(rng, (24, 10), "u8", "i8", True, False)
    b = Builder("clipped")
    x = b.input("x", (6, 24), "u8")
    real = b.add("dequantize", [x, b.constant(given.x_scale), b.constant(np.uint8(17))])
    weight = b.add("dequantize", [b.constant(given.weight), b.constant(given.w_scale), b.constant(given.w_zero)])
    limited = b.add("clip", [b.add("matmul", [real, weight])], low=low, high=high)
    scale, zero = np.float32(0.05), np.uint8(31)
    b.output("y", b.add("quantize", [limited, b.constant(scale), b.constant(zero)], dtype="u8"))
    model = Model.from_graph(b.graph())
    assert "clip" not in operators(model.graph) and "requantize" in operators(model.graph)
    data = rng.integers(0, 256, (6, 24)).astype(np.uint8)
    sums = (data.astype(np.int64) - 17) @ centred_weight(given)
    factor = ((given.x_scale * given.w_scale).astype(np.float32) / scale).astype(np.float32)
    ends = [np.clip(np.rint(np.float32(v) / scale) + 31, 0, 255) for v in (low, high)]
    wanted = np.clip(requantised(sums, factor, zero, False).astype(int), *ends)
    np.testing.assert_array_equal(ts.compile(model)(data), wanted)


def test_bytes_that_are_only_compared_stay_bytes():
    rng = np.random.default_rng(8)
    for other in (False, True):
        b = Builder("pooled")
        x = b.input("x", (1, 8, 8, 5), "u8")
        scale, zero = np.float32(0.07), np.uint8(200)
        real = b.add("dequantize", [x, b.constant(scale), b.constant(zero)])
        options = {"kernel": (3, 3), "stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
        pooled = b.add("max_pool", [real], **options)
        again = [b.constant(np.float32(0.08) if other else scale), b.constant(zero)]
        b.output("y", b.add("quantize", [pooled, *again], dtype="u8"))
        model = Model.from_graph(b.graph())
        assert operators(model.graph) == (["dequantize", "max_pool", "quantize"] if other else ["max_pool"])
        data = rng.integers(0, 256, (1, 8, 8, 5)).astype(np.uint8)
        np.testing.assert_array_equal(ts.compile(model)(data), evaluate(model.source, {"x": data})["y"])


def residual(blocks: int = 2, size: int = 6, width: int = 8) -> Model:
    """Residual blocks of quantised convolutions, each with scales of its own, a mean over the image and a matrix product."""
    rng = np.random.default_rng(9)
    b = Builder("residual")

    def real(x, scale, zero):
        return b.add("dequantize", [x, b.constant(np.float32(scale)), b.constant(np.uint8(zero))])

    def in_bytes(x, scale, zero):
        return b.add("quantize", [x, b.constant(np.float32(scale)), b.constant(np.uint8(zero))], dtype="u8")

    def weight(*shape):
        scale = b.constant((rng.random(shape[-1]) * 0.01 + 0.01).astype(np.float32))
        return b.add("dequantize", [b.constant(rng.integers(-127, 128, shape).astype(np.int8)), scale])

    options = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
    h = in_bytes(b.input("x", (1, size, size, width), "f32"), 0.02, 120)
    scale, zero = 0.02, 120
    for n in range(blocks):
        made = b.add("relu", [b.add("conv", [real(h, scale, zero), weight(3, 3, width, width)], **options)])
        first = in_bytes(made, 0.03 + 0.01 * n, 0)
        second = in_bytes(b.add("conv", [real(first, 0.03 + 0.01 * n, 0), weight(3, 3, width, width)], **options), 0.06, 111 + n)
        total = b.add("add", [real(second, 0.06, 111 + n), real(h, scale, zero)])
        h, scale, zero = in_bytes(b.add("relu", [total]), 0.05 + 0.02 * n, n), 0.05 + 0.02 * n, n
    mean = in_bytes(b.add("global_avg_pool", [real(h, scale, zero)]), 0.03, 1)
    rows = b.add("reshape", [real(mean, 0.03, 1)], shape=(1, width))
    b.output("y", in_bytes(b.add("matmul", [rows, weight(width, 5)]), 0.04, 99))
    return Model.from_graph(b.graph())


def test_a_network_stays_in_bytes():
    model = residual()
    x = drawn(np.random.default_rng(10), (1, 6, 6, 8))
    partition = model.partition
    between = {model.graph.values[name].dtype for call in partition.calls for name in call.outputs}
    assert between == {"u8"}  # whoever reads bytes makes them real
    (wanted,) = evaluate(model.graph, {"x": x}).values()
    np.testing.assert_array_equal(ts.compile(model)(x), wanted)
    assert len(np.unique(wanted)) > 2
    real = evaluate(model.source, {"x": x})["y"].astype(int)
    assert np.abs(real - wanted.astype(int)).max() <= 3  # a step here and there on the way


def test_layers_with_other_scales_are_one_task():
    model = residual(blocks=5)
    assert len(model.tasks()) <= 10
    assert max(task.weight for task in model.tasks()) >= 4
    x = drawn(np.random.default_rng(11), (1, 6, 6, 8))
    (wanted,) = evaluate(model.graph, {"x": x}).values()
    np.testing.assert_array_equal(ts.compile(model)(x), wanted)


def test_an_image_has_as_many_channels_as_are_taken_at_once():
    rng = np.random.default_rng(12)
    given = layer(rng, (3, 3, 3, 8), "u8", "i8", True, True)
    x = drawn(rng, (1, 9, 9, 3))
    options = {"stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
    model = network(given, x.shape, "conv", **options)
    (node,) = [n for n in model.graph.nodes if n.operator == "integer_conv"]
    assert [model.graph.values[name].shape for name in node.inputs] == [(1, 9, 9, 4), (3, 3, 4, 8)]
    exactly(model, given, x, convolved(centred_input(given, x), centred_weight(given), 1, False)[:, ::2, ::2])


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_a_byte_are_tables(kind):
    """GELU, quantised again behind every step of it, is one table."""
    rng = np.random.default_rng(13)
    b = Builder("gelu")
    x = b.input("x", (5, 70), kind)
    zeros = iter([3, 100, 0, 128, 7] if kind == "u8" else [3, -100, 0, -128, 7])

    def steps(value, scale):
        given = [b.constant(np.float32(scale)), b.constant(np.array(next(zeros), KINDS[kind]))]
        return b.add("dequantize", [b.add("quantize", [value, *given], dtype=kind), *given])

    real = b.add("dequantize", [x, b.constant(np.float32(0.03)), b.constant(np.array(9, KINDS[kind]))])
    inner = steps(b.add("divide", [real, b.constant(np.float32(2**0.5))]), 0.02)
    erf = steps(b.add("erf", [inner]), 0.008)
    half = steps(b.add("multiply", [b.add("add", [erf, b.constant(np.float32(1))]), b.constant(np.float32(0.5))]), 0.004)
    given = [b.constant(np.float32(0.02)), b.constant(np.array(next(zeros), KINDS[kind]))]
    b.output("y", b.add("quantize", [b.add("multiply", [real, half]), *given], dtype=kind))
    model = Model.from_graph(b.graph())
    assert operators(model.graph) == ["table"]
    limits = np.iinfo(KINDS[kind])
    data = rng.integers(limits.min, limits.max + 1, (5, 70)).astype(KINDS[kind])
    wanted = evaluate(model.source, {"x": data})["y"]
    np.testing.assert_array_equal(ts.compile(model)(data), wanted)
    assert len(np.unique(wanted)) > 20


def test_what_is_made_of_two_bytes_is_no_table():
    b = Builder("two")
    x, y = b.input("x", (6,), "u8"), b.input("y", (6,), "u8")
    one, other = (b.add("dequantize", [v, b.constant(np.float32(0.1))]) for v in (x, y))
    b.output("z", b.add("quantize", [b.add("exp", [b.add("add", [one, other])]), b.constant(np.float32(0.5))], dtype="u8"))
    assert "table" not in operators(Model.from_graph(b.graph()).graph)


@pytest.mark.parametrize("operator", ["matmul", "conv"])
def test_small_weights_are_said_to_be_small_where_a_machine_wants_that(operator):
    rng = np.random.default_rng(3)
    shape, weight = ((16, 64), (64, 40)) if operator == "matmul" else ((1, 8, 8, 16), (3, 3, 16, 24))
    given = layer(rng, weight, "u8", "i8", True, False)
    options = {} if operator == "matmul" else {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
    for limit, wanted in ((63, True), (64, False)):
        small = replace(given, weight=np.where(rng.random(weight) < 0.1, limit, given.weight // 2).astype(np.int8))
        model = network(small, shape, operator, **options)
        told = model.with_pairs(True)
        product = next(n for n in told.graph.nodes if n.operator.startswith("integer_"))
        assert bool(product.attributes.get("small_weight")) is wanted and told.with_pairs(True) is told
        x = {"x": drawn(rng, shape)}
        (one,), (other,) = evaluate(model.graph, x).values(), evaluate(told.graph, x).values()
        np.testing.assert_array_equal(one, other)
        machines = [ts.Target.named(name) for name in ("x86-64-v3", "znver4")]
        code = {m.name: ts.compile(model, target=m, formulations="direct").assembly for m in machines}
        assert ("vpmaddubsw" in code["x86-64-v3"]) is wanted and "vpmaddubsw" not in code["znver4"]


def test_networks_for_machines_that_take_any_bytes_have_the_same_tasks_as_before():
    rng = np.random.default_rng(4)
    given = layer(rng, (64, 40), "u8", "i8", True, False)
    model = network(replace(given, weight=given.weight // 2), (16, 64), "matmul")
    assert not ts.Target.named("znver4").multiplies_pairs and ts.Target.named("znver3").multiplies_pairs
    assert model.with_pairs(False) is model
    keys = [{t.workload.key for t in m.tasks()} for m in (model, model.with_pairs(True))]
    assert keys[0] != keys[1]
