"""The benchmark of quantised layers: its exact answers are those of the reference evaluator, and steps are counted right."""

from __future__ import annotations

import numpy as np
import pytest

import int8
import quantise
import tensorsmith as ts
from contest import Settings
from harness import Comparison, Timing
from tensorsmith.graph import operators
from tensorsmith.graph.evaluate import evaluate
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
        return Comparison({name: Timing.of([[1e-3 * (1 + n)]], 1) for n, name in enumerate(contestants)}, frozenset(ours))

    monkeypatch.setattr(int8, "hold", at_once)
    row = int8.of_layer(SMALL[1], Settings(1, 0.1, ()), target)
    assert row["equal_to_exact"] == 1.0 and row["ratio_to_own_f32"] == pytest.approx(2.0) and "error" not in row
    assert "100.0000% equal to the exact answer" in int8.line(row)
