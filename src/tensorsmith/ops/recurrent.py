"""The cells of recurrent layers: what follows the matrix products of one step.

The products of the inputs with the weights do not depend on the step before, so they are made for all steps at once:

    gates_x (steps, batch, gates * hidden)      for all steps, biases included
    gates_h (batch, gates * hidden)             the product of the state before with the recurrent weight, in each step

A cell takes both, and the number of its step. Gates lie side by side in the order of ONNX: LSTM i, o, f, c; GRU z, r, h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, select
from tensorsmith.lang.expr import Expr

#: name, alpha and beta
Activation = tuple[str, float, float]
Function = Callable[[Expr], Expr]

#: name in ONNX: its default alpha and beta, and what it computes
ACTIVATIONS: dict[str, tuple[float, float, Callable[[Expr, float, float], Expr]]] = {
    "Tanh": (0, 0, lambda x, a, b: define.tanh(x)),
    "Sigmoid": (0, 0, lambda x, a, b: define.sigmoid(x)),
    "Relu": (0, 0, lambda x, a, b: define.maximum(x, 0.0)),
    "Affine": (1, 0, lambda x, a, b: x * a + b),
    "LeakyRelu": (0.01, 0, lambda x, a, b: select(x < 0.0, x * a, x)),
    "ThresholdedRelu": (1, 0, lambda x, a, b: select(x >= a, x, 0.0)),
    "ScaledTanh": (1, 1, lambda x, a, b: define.tanh(x * b) * a),
    "HardSigmoid": (0.2, 0.5, lambda x, a, b: define.minimum(define.maximum(x * a + b, 0.0), 1.0)),
    "Elu": (1, 0, lambda x, a, b: select(x < 0.0, (define.exp(define.minimum(x, 0.0)) - 1.0) * a, x)),
    "Softsign": (0, 0, lambda x, a, b: x / (define.abs(x) + 1.0)),
    "Softplus": (0, 0, lambda x, a, b: define.maximum(x, 0.0) + define.log(define.exp(-define.abs(x)) + 1.0)),
}


def _functions(activations: Sequence[Activation], count: int, clip: float | None, name: str) -> list[Function]:
    """The functions of a cell; `clip` limits what goes into them."""
    if len(activations) != count:
        raise UserError(f"{name}: expected {count} activations, got {len(activations)}")

    def function(kind: str, alpha: float, beta: float) -> Function:
        if kind not in ACTIVATIONS:
            raise UserError(f"{name}: unknown activation {kind!r}; known are {', '.join(ACTIVATIONS)}")
        formula = ACTIVATIONS[kind][2]
        if clip is None:
            return lambda x: formula(x, alpha, beta)
        return lambda x: formula(define.minimum(define.maximum(x, -clip), clip), alpha, beta)

    return [function(*a) for a in activations]


def _check(gates_x: Tensor, gates_h: Tensor, state: Tensor, gates: int, step: int, name: str) -> None:
    batch, hidden = state.shape
    if gates_x.shape[1:] != (batch, gates * hidden) or gates_h.shape[0] != batch or not 0 <= step < gates_x.shape[0]:
        raise UserError(
            f"{name}: step {step} of gates {list(gates_x.shape)} and {list(gates_h.shape)} do not fit a state {list(state.shape)}"
        )


def rnn_cell(
    gates_x: Tensor, gates_h: Tensor, *, step: int, activations: Sequence[Activation], clip: float | None = None, name: str = "rnn"
) -> Tensor:
    """f(gates_x + gates_h): the new state (batch, hidden)."""
    (f,) = _functions(activations, 1, clip, name)
    _check(gates_x, gates_h, gates_h, 1, step, name)
    return compute(gates_h.shape, lambda n, j: f(gates_x[step, n, j] + gates_h[n, j]), name=name)


def lstm_cell(
    gates_x: Tensor,
    gates_h: Tensor,
    cell: Tensor,
    peephole: Tensor | None = None,
    *,
    step: int,
    activations: Sequence[Activation],
    clip: float | None = None,
    input_forget: bool = False,
    name: str = "lstm",
) -> tuple[Tensor, Tensor]:
    """The new state and the new cell, both (batch, hidden). `peephole` (3 * hidden) weighs the cell for i, o and f.

    With `input_forget` the forget gate is 1 - i.
    """
    f, g, _ = _functions(activations, 3, clip, name)
    _, _, last = _functions(activations, 3, None, name)  # the cell itself is never clipped
    _check(gates_x, gates_h, cell, 4, step, name)
    hidden = cell.shape[1]

    def gate(which: int, n: Expr, j: Expr, through: Tensor | None = None) -> Expr:
        column = j + which * hidden if which else j
        value = gates_x[step, n, column] + gates_h[n, column]
        return value if peephole is None or through is None else value + peephole[column] * through[n, j]

    def new(n: Expr, j: Expr) -> Expr:
        i = f(gate(0, n, j, cell))
        forget = 1.0 - i if input_forget else f(gate(2, n, j, cell))
        return forget * cell[n, j] + i * g(gate(3, n, j))

    cell_out = compute(cell.shape, new, name=f"{name}_cell")
    state = compute(cell.shape, lambda n, j: f(gate(1, n, j, cell_out)) * last(cell_out[n, j]), name=name)
    return state, cell_out


def gru_reset(
    gates_x: Tensor, gates_h: Tensor, state: Tensor, *, step: int, activations: Sequence[Activation], clip: float | None = None,
    name: str = "gru_reset",
) -> Tensor:  # fmt: skip
    """r * state, which the recurrent weight of the hidden gate is applied to; gates_h (batch, 2 * hidden) are z and r."""
    f, _ = _functions(activations, 2, clip, name)
    _check(gates_x, gates_h, state, 3, step, name)
    hidden = state.shape[1]
    return compute(state.shape, lambda n, j: f(gates_x[step, n, j + hidden] + gates_h[n, j + hidden]) * state[n, j], name=name)


def gru_cell(
    gates_x: Tensor,
    gates_h: Tensor,
    hidden_h: Tensor,
    state: Tensor,
    *,
    step: int,
    activations: Sequence[Activation],
    clip: float | None = None,
    name: str = "gru",
) -> Tensor:
    """The new state; gates_h (batch, 2 * hidden) are z and r, hidden_h (batch, hidden) is what `gru_reset` gave, multiplied."""
    f, g = _functions(activations, 2, clip, name)
    _check(gates_x, gates_h, state, 3, step, name)
    hidden = state.shape[1]

    def body(n: Expr, j: Expr) -> Expr:
        z = f(gates_x[step, n, j] + gates_h[n, j])
        return (1.0 - z) * g(gates_x[step, n, j + 2 * hidden] + hidden_h[n, j]) + z * state[n, j]

    return compute(state.shape, body, name=name)


def gru_cell_linear(
    gates_x: Tensor,
    gates_h: Tensor,
    bias: Tensor,
    state: Tensor,
    *,
    step: int,
    activations: Sequence[Activation],
    clip: float | None = None,
    name: str = "gru",
) -> Tensor:
    """The new state where the reset gate applies after the product: r * (gates_h of h + bias); gates_h has all three gates."""
    f, g = _functions(activations, 2, clip, name)
    _check(gates_x, gates_h, state, 3, step, name)
    hidden = state.shape[1]

    def body(n: Expr, j: Expr) -> Expr:
        z = f(gates_x[step, n, j] + gates_h[n, j])
        r = f(gates_x[step, n, j + hidden] + gates_h[n, j + hidden])
        new = g(gates_x[step, n, j + 2 * hidden] + r * (gates_h[n, j + 2 * hidden] + bias[j]))
        return (1.0 - z) * new + z * state[n, j]

    return compute(state.shape, body, name=name)
