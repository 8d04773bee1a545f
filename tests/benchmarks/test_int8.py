"""The benchmark of quantised layers: its exact answers are those of the reference evaluator, and steps are counted right."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import int8
import models
import peers_int8
import quantise
import tensorsmith as ts
from contest import Settings
from frameworks import Unavailable
from peers_networks import NetworkPeer
from tensorsmith.graph import operators
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.measure.referee import Comparison, Timing
from tensorsmith.targets.target import native

SMALL = [quantise.Layer("product", 12, 7, 5), quantise.Layer("conv", 6, 9, 7, 3), quantise.Layer("strided", 5, 8, 9, 3, 2)]


@pytest.mark.parametrize("layer", SMALL, ids=lambda layer: layer.name)
def test_exact_answers(layer):
    model = ts.load(quantise.layer(layer, True))
    x = {"x": quantise.layer_input(layer, True)}
    (wanted,) = evaluate(model.graph, x).values()
    (found,) = quantise.exact(model.graph, x)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(ts.compile(model)(x["x"]), wanted)
    assert len(np.unique(wanted)) > 20  # neither all zero nor all at the end


@pytest.mark.parametrize("layer", SMALL, ids=lambda layer: layer.name)
def test_the_same_layer_in_f32(layer):
    quantised, real = (ts.load(quantise.layer(layer, q)) for q in (True, False))
    (steps,) = evaluate(quantised.source, {"x": quantise.layer_input(layer, True)}).values()
    (numbers,) = evaluate(real.source, {"x": quantise.layer_input(layer, False)}).values()
    inside = (steps > 0) & (steps < 255)
    counted = steps[inside].astype(np.float64)
    scale = numbers[inside] @ counted / (counted @ counted)
    assert np.abs(numbers[inside] / scale - counted).max() < 1


def test_steps():
    assert int8._steps(np.array([1, 200], np.uint8), np.array([2, 200], np.uint8)).tolist() == [1, 0]
    grid = np.arange(10, dtype=np.float32) * np.float32(0.25)
    assert int8._steps(grid, grid[::-1].copy()).max() == pytest.approx(9)
    assert int8._steps(np.zeros(3, np.float32), np.zeros(3, np.float32)).max() == 0


def test_grouped_and_dilated_convolutions_are_exact():
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (1, 9, 8, 6)).astype(np.uint8), rng.integers(-128, 128, (3, 2, 3, 8)).astype(np.int8)
    options = {"stride": (2, 1), "padding": ((1, 0), (0, 1)), "dilation": (2, 1), "groups": 2, "fill": 7}
    (wanted,) = operators.evaluate("integer_conv", [x, w], options)
    np.testing.assert_array_equal(quantise._convolved(x, w, options, False), wanted)


@pytest.mark.parametrize("name", ["native", "x86-64-v2"])
def test_the_row_of_a_layer(name, monkeypatch):
    """With us alone, and no time taken; for this machine, and for one whose code it runs."""
    target = native() if name == "native" else ts.Target.named(name)
    if name != "native" and not native().is_x86:
        pytest.skip(f"{native().name} does not run code for {name}")

    def at_once(contestants, ours, case, settings, **how):
        times = {name: 1e-3 * (1 + n) for n, name in enumerate(contestants)}
        return Comparison({name: Timing(t, (t,), 1) for name, t in times.items()}, frozenset(ours))

    monkeypatch.setattr(int8, "hold", at_once)
    row = int8.of_layer(SMALL[1], Settings(1, 0.1, ()), target)
    assert row["equal_to_exact"] == 1.0 and row["ratio_to_own_f32"] == pytest.approx(2.0) and "error" not in row
    assert "100.0000% equal to the exact answer" in int8.line(row)


# -- quantisers of their own -------------------------------------------------------------------------------------------


@pytest.fixture
def small_network(tmp_path, monkeypatch):
    """Two convolutions in f32, in a cache of their own."""
    monkeypatch.setattr(models, "CACHE", tmp_path)
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((16, 3, 3, 3)).astype(np.float32),
        "v": rng.standard_normal((8, 16, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 12, 12]) for n, c in (("x", 3), ("y", 8)))
    graph = helper.make_graph(nodes, "small", [x], [y], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    path = tmp_path / "small-b1.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return models.Network("small", path, {"x": rng.standard_normal((1, 3, 12, 12)).astype(np.float32)})


def test_onnxruntime_quantises_by_itself(small_network):
    real = peers_int8.answers_in_f32(small_network, 2)
    found = list(peers_int8.own(small_network, "onnxruntime", 2))
    assert {p.name.rsplit(" ", 1)[0] for p in found} == {"onnxruntime own qoperator", "onnxruntime own dynamic"}
    assert all(1e-4 < peers_int8.error(p.outputs(), real) < 0.1 for p in found)  # 8 bits are coarse, and not wrong
    assert len(list(models.CACHE.glob("*-int8-*.onnx"))) == 2


def test_a_quantiser_that_is_not_there_is_noted(small_network, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "nncf" else object())
    with pytest.raises(Unavailable, match="nncf is not installed"):
        list(peers_int8.own(small_network, "openvino", 2))


def test_who_quantises_more_coarsely_takes_no_part():
    real = [np.linspace(-1, 1, 100, dtype=np.float32)]
    peers = [NetworkPeer(f"openvino own {n}", lambda: None, lambda n=n: [real[0] * (1 + n / 100)]) for n in (1, 2)]
    right, errors, notes = peers_int8.accepted(peers, [real[0] * 1.01], real)
    assert [p.name for p in right] == ["openvino own 1"] and list(notes) == ["openvino own 2"]
    assert errors["tensorsmith"] == pytest.approx(0.01, rel=1e-3) and "2.0%" in notes["openvino own 2"]
