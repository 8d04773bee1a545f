"""Cells against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder
from tensorsmith.ops import recurrent

TANH, SIGMOID = ("Tanh", 0.0, 0.0), ("Sigmoid", 0.0, 0.0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype("f8")))


def test_rnn(run, random, same):
    gates_x, gates_h = random(3, 2, 5), random(2, 5)
    same(run(recurrent.rnn_cell, gates_x, gates_h, step=1, activations=(TANH,)), np.tanh(gates_x[1].astype("f8") + gates_h))


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("peephole", [False, True])
def test_lstm(run, random, same, peephole, coupled):
    gates_x, gates_h, cell, p = random(3, 2, 20), random(2, 20), random(2, 5), random(15) * peephole
    i, o, f, c = np.split(gates_x[2].astype("f8") + gates_h, 4, axis=1)
    p_i, p_o, p_f = np.split(p, 3)
    i = sigmoid(i + p_i * cell)
    new = (1 - i if coupled else sigmoid(f + p_f * cell)) * cell + i * np.tanh(c)
    state = sigmoid(o + p_o * new) * np.tanh(new)
    inputs = [gates_x, gates_h, cell, *([p] if peephole else [])]
    options = {"step": 2, "activations": (SIGMOID, TANH, TANH), "input_forget": coupled}
    for n, want in enumerate((state, new)):
        same(run(lambda *t, n=n, **o: recurrent.lstm_cell(*t, **o)[n], *inputs, **options), want)


def test_gru(run, random, same):
    gates_x, gates_h, state, bias = random(3, 2, 15), random(2, 15), random(2, 5), random(5)
    options = {"step": 0, "activations": (SIGMOID, TANH)}
    z, r, h = np.split(gates_x[0].astype("f8"), 3, axis=1)
    z, r = sigmoid(z + gates_h[:, :5]), sigmoid(r + gates_h[:, 5:10])
    linear = np.tanh(h + r * (gates_h[:, 10:] + bias))
    same(run(recurrent.gru_cell_linear, gates_x, gates_h, bias, state, **options), (1 - z) * linear + z * state)
    both = gates_h[:, :10].copy()
    same(run(recurrent.gru_reset, gates_x, both, state, **options), r * state)
    product = random(2, 5)
    same(run(recurrent.gru_cell, gates_x, both, product, state, **options), (1 - z) * np.tanh(h + product) + z * state)


@pytest.mark.parametrize(
    ("name", "alpha", "beta", "function"),
    [
        ("Relu", 0, 0, lambda x: np.maximum(x, 0)),
        ("Affine", 2, 3, lambda x: 2 * x + 3),
        ("LeakyRelu", 0.1, 0, lambda x: np.where(x < 0, 0.1 * x, x)),
        ("ThresholdedRelu", 0.5, 0, lambda x: np.where(x >= 0.5, x, 0)),
        ("ScaledTanh", 2, 0.5, lambda x: 2 * np.tanh(0.5 * x)),
        ("HardSigmoid", 0.3, 0.6, lambda x: np.clip(0.3 * x + 0.6, 0, 1)),
        ("Elu", 0.7, 0, lambda x: np.where(x < 0, 0.7 * (np.exp(x) - 1), x)),
        ("Softsign", 0, 0, lambda x: x / (1 + np.abs(x))),
        ("Softplus", 0, 0, lambda x: np.log(1 + np.exp(x))),
    ],
)
def test_activations(run, random, same, name, alpha, beta, function):
    gates_x, gates_h = random(1, 4, 9) * 3, random(4, 9)
    got = run(recurrent.rnn_cell, gates_x, gates_h, step=0, activations=((name, alpha, beta),))
    np.testing.assert_allclose(got, function(gates_x[0].astype("f8") + gates_h), rtol=1e-5, atol=1e-6)


def test_clip_limits_what_goes_into_the_functions(run, random, same):
    gates_x, gates_h = random(1, 2, 5) * 3, random(2, 5)
    got = run(recurrent.rnn_cell, gates_x, gates_h, step=0, activations=(TANH,), clip=0.5)
    same(got, np.tanh(np.clip(gates_x[0].astype("f8") + gates_h, -0.5, 0.5)))


def test_refusals():
    gates_x, gates_h = placeholder((3, 2, 5), name="x"), placeholder((2, 5), name="h")
    with pytest.raises(UserError, match="step 3 of gates"):
        recurrent.rnn_cell(gates_x, gates_h, step=3, activations=(TANH,))
    with pytest.raises(UserError, match="unknown activation 'Cube'"):
        recurrent.rnn_cell(gates_x, gates_h, step=0, activations=(("Cube", 0, 0),))
    with pytest.raises(UserError, match="expected 3 activations"):
        recurrent.lstm_cell(gates_x, gates_h, gates_h, step=0, activations=(TANH,))
