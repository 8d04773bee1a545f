"""LSTM, GRU and RNN against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import by_reference, check, kinds, model_of, random

from tensorsmith.compile import compile as build
from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx
from tensorsmith.graph.model import Model

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 5, 2, 3, 4


def layer(
    kind,
    direction="forward",
    bias=True,
    initial=False,
    peephole=False,
    lengths=None,
    compiled=False,
    peer=None,
    constants=(1, 2, 3, 4, 7),
    **attributes,
):
    count = 2 if direction == "bidirectional" else 1
    gates = GATES[kind]
    arrays = [
        random(STEPS, BATCH, INPUTS),
        random(count, gates * HIDDEN, INPUTS, seed=1),
        random(count, gates * HIDDEN, HIDDEN, seed=2),
        random(count, 2 * gates * HIDDEN, seed=3) if bias else None,
        lengths,
        random(count, BATCH, HIDDEN, seed=4) if initial else None,
    ]
    if kind == "LSTM":
        arrays += [random(count, BATCH, HIDDEN, seed=5) if initial else None]
        arrays += [random(count, 3 * HIDDEN, seed=6)] if peephole else []
    if attributes.get("layout"):
        arrays = [a.swapaxes(0, 1).copy() if a is not None and n in (0, 5, 6) else a for n, a in enumerate(arrays)]
    while arrays[-1] is None:
        arrays.pop()
    options = {"outputs": 3 if kind == "LSTM" else 2, "constants": constants, "hidden_size": HIDDEN, "opset": 14}
    return check(kind, arrays, direction=direction, compiled=compiled, **({"peer": peer} if peer else {}), **options, **attributes)


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_directions(kind, direction, bias, initial):
    layer(kind, direction, bias, initial)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_reset_after_the_product(direction, bias):
    layer("GRU", direction, bias, initial=True, linear_before_reset=1)


def test_peephole_and_coupled_gates():
    layer("LSTM", peephole=True, initial=True)
    layer("LSTM", "bidirectional", peephole=True)
    layer("LSTM", initial=True, input_forget=1)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_batch_first(kind):  # ONNX Runtime has no such layout
    layer(kind, initial=True, layout=1, peer=by_reference)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_clip(kind):
    layer(kind, initial=True, clip=0.3)


@pytest.mark.parametrize("name", ["Relu", "Sigmoid", "Affine", "LeakyRelu", "ScaledTanh", "HardSigmoid", "Softsign", "Softplus"])
def test_activations(name):
    given = {"activation_alpha": [0.3], "activation_beta": [0.6]} if name in ("Affine", "ScaledTanh", "HardSigmoid") else {}
    given = {"activation_alpha": [0.3]} if name == "LeakyRelu" else given
    layer("RNN", activations=[name], **given)


def test_activations_of_each_gate_and_direction():
    layer("GRU", activations=["HardSigmoid", "Relu"], activation_alpha=[0.3], activation_beta=[0.4])
    layer(
        "LSTM", "bidirectional", activations=["Sigmoid", "Relu", "Tanh", "HardSigmoid", "Tanh", "Softsign"], activation_alpha=[0.4]
    )


@pytest.mark.parametrize("lengths", [[5, 5], [5, 3], [2, 4]])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_lengths(kind, direction, lengths):
    layer(kind, direction, initial=True, lengths=np.array(lengths, np.int32))
    layer(kind, direction, lengths=np.array(lengths, np.int32), constants=(1, 2, 3))


def test_full_lengths_change_nothing():
    assert kinds(layer("LSTM", lengths=np.full(BATCH, STEPS, np.int32))) == kinds(layer("LSTM"))
    model, _ = model_of("LSTM", [random(5, 2, 3), random(1, 16, 3), random(1, 16, 4), None, np.full(3, 5, "i4")], hidden_size=4)
    with pytest.raises(UserError, match=r"sequence_lens has the shape \[3\]"):
        load_onnx(model)


def test_one_step_takes_two_nodes():
    """The inputs' product is one for the whole sequence."""
    graph = layer("LSTM", initial=True)
    names = kinds(graph)
    assert names.count("lstm_cell") == STEPS
    assert names.count("matmul") == STEPS + 1


def test_a_long_sequence():
    arrays = [random(64, 1, 8), random(1, 64, 8, seed=1), random(1, 64, 16, seed=2), random(1, 128, seed=3)]
    graph = check("LSTM", arrays, outputs=3, constants=(1, 2, 3), hidden_size=16)
    assert len(graph.nodes) < 64 * 3 + 20


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_generated_code(kind):
    layer(kind, initial=True, compiled=True)


def test_refusals():
    x, w, r = random(5, 2, 3), random(1, 16, 3), random(1, 16, 4)
    for arrays, attributes, message in [
        ([x, w, r], {"direction": "up"}, "direction is 'up'"),
        ([x, w, r], {"direction": "bidirectional"}, "W and R have the shapes"),
        ([x, w, r], {"activations": ["Tanh"]}, "expected 3 for each of 1"),
        ([x, w, r], {"activations": ["Cube", "Tanh", "Tanh"]}, "'Cube' is not known"),
    ]:
        model, _ = model_of("LSTM", arrays, hidden_size=4, **attributes)
        with pytest.raises(UserError, match=message):
            load_onnx(model)


def long_layer(kind, steps, direction, lengths=None):
    """A model whose weights are constants, and inputs for it."""
    count, gates = 2 if direction == "bidirectional" else 1, GATES[kind]
    arrays = [
        random(steps, BATCH, INPUTS),
        random(count, gates * HIDDEN, INPUTS, seed=1),
        random(count, gates * HIDDEN, HIDDEN, seed=2),
        random(count, 2 * gates * HIDDEN, seed=3),
        *([] if lengths is None else [np.array(lengths, np.int32)]),
    ]
    outputs = 3 if kind == "LSTM" else 2
    model, inputs = model_of(kind, arrays, outputs, 14, (1, 2, 3), direction=direction, hidden_size=HIDDEN)
    return Model(load_onnx(model)), inputs


@pytest.mark.parametrize("lengths", [None, [7, 9]])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_steps_are_calls_of_the_same_kernels(kind, direction, lengths):
    """However many there are: what is compiled for 300 steps is what is compiled for 20."""
    few, many = (long_layer(kind, steps, direction, lengths)[0].tasks() for steps in (20, 300))
    assert len(few) == len(many) <= 14
    assert {t.workload for t in few if t.weight > 10} == {t.workload for t in many if t.weight > 10} != set()


def test_states_are_written_where_the_result_has_them():
    """Nothing is copied behind the last step, in either direction, but the last states, which are results of their own."""
    names = {t.workload.operators for t in long_layer("LSTM", 20, "bidirectional")[0].tasks()}
    assert names == {"lstm_cell", "matmul", "matmul+add", "concat"}


@pytest.mark.parametrize("lengths", [None, [12, 7]])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_compiled_sequence(kind, direction, lengths):
    model, inputs = long_layer(kind, 12, direction, lengths)
    results = build(model)(**inputs)
    for got, want in zip(results, model.evaluate(inputs).values(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
