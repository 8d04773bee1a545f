"""Weights in fewer bits: what is stored, what is computed, what it costs, and who may ask for it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.model import Model

KINDS = {"bf16": ("bf16", 2.0**-8), "f16": ("f16", 2.0**-11), "int8": ("i8", 1 / 127)}


def uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-1, 1, shape).astype(np.float32)


def of_matmul(transposed: bool = False, left: bool = False) -> Graph:
    b = Builder("product")
    x = b.input("x", (96, 5) if left else (5, 96), "f32")
    w = b.constant(uniform(70, 96) if transposed or left else uniform(96, 70), "w")
    product = b.add("matmul", [w, x]) if left else b.add("matmul", [x, w], transpose_b=transposed)
    b.output("y", b.add("relu", [product]))
    return b.graph()


def of_batch() -> Graph:
    b = Builder("batch")
    x, w = b.input("x", (3, 4, 40), "f32"), b.constant(uniform(3, 40, 50), "w")
    b.output("y", b.add("matmul", [x, w]))
    return b.graph()


def of_conv(groups: int = 1) -> Graph:
    b = Builder("conv")
    x, w = b.input("x", (1, 7, 8, 32), "f32"), b.constant(uniform(3, 3, 32 // groups, 64), "w")
    b.output("y", b.add("conv", [x, w], stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=groups))
    return b.graph()


def of_small_conv_and_matmul() -> Graph:
    """A convolution that Winograd's way can compute, of weights too few to be packed, and a product of more."""
    b = Builder("both")
    x, w = b.input("x", (1, 16, 16, 16), "f32"), b.constant(uniform(3, 3, 16, 16), "w")
    y = b.add("conv", [x, w], stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1))
    b.output("y", b.add("matmul", [b.add("reshape", [y], shape=(64, 64)), b.constant(uniform(64, 80), "v")]))
    return b.graph()


def of_transposed_conv(groups: int = 2) -> Graph:
    b = Builder("transposed")
    x, w = b.input("x", (1, 5, 6, 32), "f32"), b.constant(uniform(3, 3, 32, 24), "w")
    pairs = ((1, 1), (1, 1))
    b.output("y", b.add("transposed_conv", [x, w], stride=(2, 2), padding=pairs, output_padding=(0, 0), groups=groups))
    return b.graph()


def of_table() -> Graph:
    b = Builder("table")
    rows, i = b.constant(uniform(90, 64), "rows"), b.input("i", (4, 3), "i64")
    b.output("y", b.add("gather", [rows, i], axis=0))
    return b.graph()


GRAPHS = {
    "matmul": of_matmul(), "right transposed": of_matmul(transposed=True), "left": of_matmul(left=True), "batch": of_batch(),
    "conv": of_conv(), "groups": of_conv(4), "transposed conv": of_transposed_conv(), "table": of_table(),
}  # fmt: skip


def inputs_of(model: Model) -> list[np.ndarray]:
    return [uniform(*v.shape) if v.dtype == "f32" else np.arange(v.elements).reshape(v.shape) * 7 for v in model.inputs]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_weights_are_stored_so_and_multiplied_in_f32(name: str, kind: str) -> None:
    """By definition and as code: what the rounded weights give, and near what the weights give."""
    model = Model.from_graph(GRAPHS[name])
    stored = model.with_weights(kind)
    element, step = KINDS[kind]
    large = max(stored.graph.constants.values(), key=lambda a: a.size)
    assert stored.graph.values[next(n for n, a in stored.graph.constants.items() if a is large)].dtype == element
    inputs = inputs_of(model)
    want, exact = stored.evaluate(inputs)["y"], model.evaluate(inputs)["y"]
    got = ts.compile(model, weights=kind)(*inputs)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())
    terms = {"table": 1}.get(name, 300)
    assert 0 < np.abs(want - exact).max() < 2 * step * np.sqrt(terms)


def test_int8_has_a_scale_for_each_output_channel() -> None:
    """A channel of small weights keeps its digits beside one of large weights; one of zeros stays zero."""
    b = Builder("channels")
    weights = uniform(64, 80) * np.where(np.arange(80) % 2, 1000.0, 0.001).astype(np.float32)
    weights[:, 7] = 0
    b.output("y", b.add("matmul", [b.input("x", (2, 64), "f32"), b.constant(weights, "w")]))
    model = Model.from_graph(b.graph())
    x = uniform(2, 64)
    got, want = ts.compile(model, weights="int8")(x), x @ weights
    assert (got[:, 7] == 0).all()
    off = np.abs(got - want).max(0) / np.maximum(np.abs(weights).max(0), 1e-30)
    assert off.max() < 0.1, "relative to the channel's own weights"


def test_small_weights_infinite_ones_and_other_types_stay_as_they_are() -> None:
    for change in (lambda w: w[:5, :5], lambda w: w * np.float32(np.inf), lambda w: w.astype(np.float64)):
        b = Builder("kept")
        with np.errstate(invalid="ignore"):
            weights = change(uniform(96, 70))
        x = b.input("x", (3, weights.shape[0]), "f64" if weights.dtype == np.float64 else "f32")
        b.output("y", b.add("matmul", [x, b.constant(weights, "w")]))
        for kind in KINDS:
            kept = Model.from_graph(b.graph()).with_weights(kind).graph
            assert [a.dtype for a in kept.constants.values()] == [weights.dtype]


def test_a_weight_too_large_for_f16_stays_an_f32() -> None:
    b = Builder("large")
    weights = uniform(96, 70)
    weights[3, 3] = 70_000
    b.output("y", b.add("matmul", [b.input("x", (3, 96), "f32"), b.constant(weights, "w")]))
    model = Model.from_graph(b.graph())
    types = {kind: next(iter(model.with_weights(kind).graph.constants.values())).dtype.name for kind in ("f16", "bf16")}
    assert types == {"f16": "float32", "bf16": "bfloat16"}


def test_what_it_costs_is_measured_on_samples() -> None:
    model = Model.from_graph(GRAPHS["matmul"])
    stored = model.with_weights("int8")
    x = uniform(5, 96)
    error = stored.weights_error([{"x": x}, {"x": 2 * x}])
    want, got = (np.concatenate([m.evaluate([s * x])["y"].ravel() for s in (1, 2)]) for m in (model, stored))
    (output,) = error.outputs
    assert output.name == "y" and error.samples == 2
    np.testing.assert_allclose(output.share, np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)), rtol=1e-6)
    np.testing.assert_allclose(output.largest, np.abs(got - want).max(), rtol=1e-6)
    assert error.bytes_before == 4 * 96 * 70 and error.bytes_after == 96 * 70 + 4 * 70
    assert "int8" in str(error) and "y is off by" in str(error)
    assert stored.weights_error().outputs[0].share > 0  # on random inputs
    assert model.with_weights("bf16").weights_error().outputs[0].share < output.share


def test_mistakes_are_named() -> None:
    model = Model.from_graph(GRAPHS["matmul"])
    with pytest.raises(UserError, match="weights is 'int4'; give one of 'bf16', 'f16', 'int8'"):
        ts.compile(model, weights="int4")
    a = ts.placeholder((4,), name="A")
    with pytest.raises(UserError, match="weights is for models"):
        ts.compile([a, ts.compute((4,), lambda i: a[i] + 1)], weights="bf16")
    with pytest.raises(UserError, match="as they were imported"):
        model.weights_error()
    with pytest.raises(UserError, match="samples is empty"):
        model.with_weights("f16").weights_error([])


def test_saved_pickled_and_copied_they_stay_so(tmp_path: Path) -> None:
    model = Model.from_graph(GRAPHS["matmul"])
    x = uniform(5, 96)
    executable = ts.compile(model, weights="int8")
    assert executable.memory.constants < ts.compile(model).memory.constants / 3
    executable.save(tmp_path / "model.tsm")
    again = ts.load_executable(tmp_path / "model.tsm")
    np.testing.assert_array_equal(again(x), executable(x))
    assert again.memory.constants == executable.memory.constants
    stored = pickle.loads(pickle.dumps(model.with_weights("int8")))
    assert stored.weights == "int8"
    np.testing.assert_array_equal(stored.evaluate([x])["y"], model.with_weights("int8").evaluate([x])["y"])
    stored = Model.from_graph(of_small_conv_and_matmul()).with_weights("bf16")
    direct = stored.with_formulations("direct")
    assert direct.partition != stored.partition and direct.weights == "bf16"
    assert model.with_weights("bf16").with_weights(None).graph.constants.keys() == model.graph.constants.keys()


def test_tuned_they_stay_so() -> None:
    model = Model.from_graph(GRAPHS["matmul"])
    x = uniform(5, 96)
    tuned = ts.tune(model, weights="bf16", trials=2, on_progress=lambda p: None)
    np.testing.assert_allclose(tuned(x), model.with_weights("bf16").evaluate([x])["y"], rtol=1e-4, atol=1e-4)
    assert tuned.memory.constants < 4 * 96 * 70 * 0.7


def test_of_open_sizes_all_variants_share_them() -> None:
    weights = uniform(80, 70)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("batch", n)) for name, n in (("x", 80), ("y", 70))]
    constants = [numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "open", ends[:1], ends[1:], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    model = ts.load(proto.SerializeToString(), shapes={"batch": [1, 4]})
    executable = ts.compile(model, weights="int8")
    for rows in (1, 4, 3):
        x = uniform(rows, 80)
        got = executable(x)
        np.testing.assert_allclose(got, model.with_weights("int8").at(batch=rows).evaluate([x])["y"], rtol=1e-4, atol=1e-4)
        assert np.abs(got - x @ weights).max() > 1e-4
