"""`from_torch`: what a module becomes, how its executable is called, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.frontends.torch import UnsupportedNodes
from tensorsmith.frontends.torch.model import TorchExecutable
from tensorsmith.frontends.torch.table import table

pytestmark = pytest.mark.peers


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None, twice: bool = False) -> torch.Tensor:
        y = self.layer(x)
        y = y if scale is None else y * scale
        return y * 2 if twice else y


def _close(got: torch.Tensor, want: torch.Tensor) -> bool:
    return got.dtype == want.dtype and torch.allclose(got, want, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_tensors_in_and_out_share_their_memory() -> None:
    module, x = Dense().eval(), torch.randn(3, 6)
    executable = ts.compile(ts.from_torch(module, x))
    seen: list[Any] = []
    plain = TorchExecutable._call_plainly.func  # type: ignore[attr-defined]

    def watched(self: Any) -> Any:
        call = plain(self)

        def noted(args: Any, out: Any) -> Any:
            seen.append((args, call(args, out)))
            return seen[-1][1]

        return noted

    executable.__dict__["_call_plainly"] = watched(executable)
    executable(x)  # makes the memory that calls need
    y = executable(x)
    ((array,), given) = seen[-1]
    assert isinstance(y, torch.Tensor) and _close(y, module(x))
    assert array.ctypes.data == x.data_ptr() and given.ctypes.data == y.data_ptr()


@torch.no_grad()
def test_tensors_of_any_layout_and_arrays_are_taken() -> None:
    module, x = Dense().eval(), torch.randn(6, 3)
    executable = ts.compile(ts.from_torch(module, x.T))
    assert _close(executable(x.T), module(x.T))
    assert _close(executable(x.T.contiguous().numpy()), module(x.T))
    with torch.enable_grad():
        assert _close(executable(x.clone().requires_grad_().T), module(x.T))
    with pytest.raises(UserError, match=r"x must have shape \(3, 6\), \(4, 6\) given"):
        executable(torch.randn(4, 6))


@torch.no_grad()
def test_arguments_may_be_given_by_name_or_by_position() -> None:
    module, x, scale = Dense().eval(), torch.randn(3, 6), torch.randn(4)
    want = module(x, scale, True)
    for examples in ((x, scale, True), {"x": x, "scale": scale, "twice": True}, {"twice": True, "scale": scale, "x": x}):
        executable = ts.compile(ts.from_torch(module, examples))
        assert _close(executable(x, scale, True), want)
        assert _close(executable(x, scale=scale, twice=True), want)
        assert _close(executable(twice=True, scale=scale, x=x), want)
        assert _close(executable.run({"x": x, "scale": scale})["output_0"], want)
        with pytest.raises(UserError, match="exported with True as an argument, and is called with False"):
            executable(x, scale, False)
        with pytest.raises(UserError, match="scale is a NoneType"):
            executable(x, None, True)
        with pytest.raises(UserError, match="unexpected keyword argument 'size'"):
            executable(x, scale, size=3)


@torch.no_grad()
def test_tensors_are_taken_by_name_in_any_order() -> None:
    def difference(x: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return x * more["a"] - more["b"]

    x, a, b = torch.randn(3), torch.randn(3), torch.randn(3)
    executable = ts.compile(ts.from_torch(difference, {"b": b, "x": x, "a": a}))
    for given in ({"b": b, "x": x, "a": a}, {"x": x, "a": a, "b": b}, {"a": a, "b": b.numpy(), "x": x}):
        assert _close(executable(**given), x * a - b)
    assert _close(executable(x, b=b, a=a), x * a - b)


@dataclass
class Pair:
    first: torch.Tensor
    second: Any


pytree.register_dataclass(Pair)


@torch.no_grad()
def test_results_have_the_structure_of_the_module() -> None:
    class Several(nn.Module):
        def forward(self, x: torch.Tensor, more: dict[str, list[torch.Tensor]]) -> Any:
            total = x + more["a"][0] * more["a"][1]
            return Pair(total, {"again": total, "input": x, "none": None, "number": 3, "parts": [total.sum(0), (total.max(),)]})

    x, more = torch.randn(2, 3), {"a": [torch.randn(2, 3), torch.randn(3)]}
    model = ts.from_torch(Several(), (x, more))
    got, want = ts.compile(model)(x, more), Several()(x, more)
    leaves, spec = pytree.tree_flatten(got)
    assert spec == pytree.tree_structure(want) and got.first is got.second["again"]
    assert all(_close(g, w) if isinstance(w, torch.Tensor) else g == w for g, w in zip(leaves, pytree.tree_leaves(want)))
    assert [v.name for v in model.inputs] == ["x", "more_a_0", "more_a_1"]
    assert [v.name for v in model.outputs] == ["first", "second_input", "second_parts_0", "second_parts_1_0"]


@torch.no_grad()
def test_weights_are_copied() -> None:
    module, x = Dense().eval(), torch.randn(3, 6)
    want = module(x)
    model = ts.from_torch(module, x)
    module.layer.weight.zero_()
    module.layer.bias.zero_()
    assert _close(ts.compile(model)(x), want)


@torch.no_grad()
def test_a_function_and_a_saved_executable(tmp_path: Path) -> None:
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, -2 * x) + torch.arange(4)

    x = torch.randn(3, 4)
    executable = ts.compile(ts.from_torch(shifted, x))
    assert executable.name == "shifted" and _close(executable(x), shifted(x))
    executable.save(tmp_path / "shifted.tsm")
    loaded = ts.load_executable(tmp_path / "shifted.tsm")(x.numpy())
    assert isinstance(loaded, np.ndarray) and _close(torch.from_numpy(loaded), shifted(x))


@torch.no_grad()
def test_elements_are_found_by_known_and_computed_indices_together() -> None:
    def picked(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = y.argmax(-1)
        return (
            x[torch.arange(1), first],
            x[:, first, torch.tensor([2])],
            x[0, :, 1][first],
            x[torch.tensor([0]), torch.tensor([-1])],
        )

    x, y = torch.randn(1, 5, 4), torch.randn(1, 5)
    got = ts.compile(ts.from_torch(picked, (x, y)))(x, y)
    assert all(_close(g, w) for g, w in zip(got, picked(x, y), strict=True))


@torch.no_grad()
def test_without_other_formulations_an_executable_takes_tensors_all_the_same() -> None:
    module, x = nn.Conv2d(16, 16, 3, padding=1).eval(), torch.randn(1, 16, 16, 16)
    model = ts.from_torch(module, x)
    assert any(task.formulations for task in model.tasks())
    assert _close(ts.compile(model, formulations="direct")(x), module(x))


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "options", "cell"),
    [
        (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}, "lstm_cell"),
        (nn.LSTM, {"num_layers": 2, "proj_size": 3}, "lstm_cell"),
        (nn.LSTM, {"bias": False}, "lstm_cell"),
        (nn.GRU, {"num_layers": 2, "bidirectional": True}, "gru_cell_linear"),
        (nn.GRU, {"bias": False}, "gru_cell_linear"),
        (nn.RNN, {"num_layers": 2, "nonlinearity": "relu"}, "rnn_cell"),
    ],
)
def test_recurrent_layers_are_made_of_cells(kind: type[nn.Module], options: dict[str, Any], cell: str) -> None:
    module, x = kind(5, 4, **options).eval(), torch.randn(3, 2, 5)
    model = ts.from_torch(module, x)
    layers = module.num_layers * (2 if module.bidirectional else 1)
    steps = x.shape[1] if module.batch_first else x.shape[0]
    assert sum(node.operator == cell for node in model.graph.nodes) == layers * steps
    for g, w in zip(pytree.tree_leaves(ts.compile(model)(x)), pytree.tree_leaves(module(x)), strict=True):
        assert _close(g, w)


def test_dropout_between_recurrent_layers_is_for_training() -> None:
    module = nn.LSTM(5, 4, 2, dropout=0.5)
    with pytest.raises(UserError, match=r"dropout is 0.5: it drops elements at random.*call module.eval\(\) first"):
        ts.from_torch(module, torch.randn(3, 2, 5))
    assert ts.from_torch(module.eval(), torch.randn(3, 2, 5)).outputs


def test_a_softmax_of_nothing_is_nothing() -> None:
    model = ts.from_torch(lambda x: (x.softmax(1), x.log_softmax(0)), torch.empty(3, 0))
    assert [v.shape for v in model.outputs] == [(3, 0), (3, 0)]


def test_a_model_is_tuned() -> None:
    module, x = Dense().eval(), torch.randn(3, 6)
    executable = ts.tune(ts.from_torch(module, x), trials=2, on_progress=lambda _: None)
    with torch.no_grad():
        assert _close(executable(x), module(x))


def test_all_operators_without_a_handler_are_named_with_how_often_they_occur() -> None:
    def odd(x: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(x) @ torch.lgamma(x + 1) + torch.special.i0(x) + torch.relu(x)

    with pytest.raises(UnsupportedNodes) as caught:
        ts.from_torch(odd, torch.randn(3, 3))
    assert caught.value.counts == {"lgamma.default": 2, "i0.default": 1}
    assert "lgamma.default x2, i0.default x1" in str(caught.value)


def test_arguments_that_are_not_supported_are_refused_with_the_reason() -> None:
    def scattered(x: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, torch.tensor([0, 1]), torch.ones(2), "sum", include_self=False)

    with pytest.raises(UnsupportedNodes, match=r"scatter_reduce.two x1; .* known are .*, with include_self"):
        ts.from_torch(scattered, torch.randn(3))


def test_arguments_that_no_handler_reads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(node: Any, b: Any) -> Any:
        return b.add("gelu", [node.value("self")])

    monkeypatch.setitem(table(), "gelu.default", careless)  # type: ignore[arg-type]
    assert ts.from_torch(nn.GELU(), torch.randn(3)).outputs
    with pytest.raises(UnsupportedNodes, match="the argument approximate='tanh' is not supported"):
        ts.from_torch(nn.GELU("tanh"), torch.randn(3))


@pytest.mark.parametrize(
    ("function", "example", "message"),
    [
        (lambda x: x * 2, torch.ones(3, dtype=torch.complex64), "is complex64; supported are float32, float64, float16, bfloat16"),
        (lambda x: x.nonzero(), torch.ones(3), "nonzero"),
        (lambda x: x * 2 if x.sum() > 0 else x, torch.ones(3), "torch.export cannot turn .* into a graph"),
        (lambda x: torch.linalg.inv(x), torch.eye(3), "linalg_inv_ex.default x1"),
        (lambda x: torch.rand(3) + x, torch.ones(3), "rand.default"),
    ],
)
def test_what_cannot_be_had_is_said(function: Any, example: torch.Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ts.from_torch(function, example)


def test_a_module_in_training_mode_is_told_so() -> None:
    with pytest.raises(UserError, match=r"changes .*call module.eval\(\) first"):
        ts.from_torch(nn.BatchNorm1d(4), torch.randn(3, 4))
    with pytest.raises(UserError, match=r"native_dropout.*call module.eval\(\) first"):
        ts.from_torch(nn.Dropout(), torch.randn(3, 4))


@pytest.mark.parametrize(("module", "example"), [(3, torch.ones(1)), (Dense(), 3), (Dense(), "x")])
def test_what_is_no_module_or_no_example_is_said(module: Any, example: Any) -> None:
    with pytest.raises(UserError, match=r"from_torch takes|example_inputs is"):
        ts.from_torch(module, example)


def test_importing_tensorsmith_does_not_import_pytorch() -> None:
    code = "import sys, tensorsmith; tensorsmith.from_torch; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@torch.no_grad()
@pytest.mark.parametrize(
    ("mask", "operators"),
    [
        (None, {"softmax"}),
        (torch.ones(5, 5, dtype=torch.bool), {"softmax"}),
        (torch.zeros(1, 1, 5, 5), {"softmax"}),
        (torch.ones(5, 5).tril().bool(), {"softmax", "where"}),
        (torch.full((5, 5), -torch.inf).triu(1), {"softmax", "add"}),
        (torch.ones(5, 5).tril(-1).bool(), {"masked_softmax", "where"}),
        (torch.full((5, 5), -torch.inf).triu(), {"masked_softmax", "add"}),
    ],
)
def test_masks_that_are_known_cost_no_more_than_they_must(mask: torch.Tensor | None, operators: set[str]) -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)

    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    model = ts.from_torch(attention, (q, k, v))
    assert {n.operator for n in model.graph.nodes} & {"softmax", "masked_softmax", "where", "add"} == operators
    assert _close(ts.compile(model)(q, k, v), attention(q, k, v))


@pytest.mark.parametrize(("height", "width", "kernel", "stride"), [(7, 7, 3, 1), (5, 8, 5, 2), (3, 4, 7, 1)])
def test_a_convolution_of_tokens(height: int, width: int, kernel: int, stride: int) -> None:
    """As CoaT's position encoding: tokens but for the first are an image, which is padded where it is read."""
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(6, 6, kernel, stride, padding=kernel // 2, groups=6).eval()

    def encoded(x: torch.Tensor) -> torch.Tensor:
        image = x[:, 1:].transpose(1, 2).reshape(x.shape[0], 6, height, width)
        return torch.cat([x[:, :1], layer(image).flatten(2).transpose(1, 2)], 1)

    x = torch.randn(2, 1 + height * width, 6)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(ts.compile(ts.from_torch(encoded, (x,)))(x)), encoded(x), rtol=1e-5, atol=1e-5)


def test_pytorch_s_dumps_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    def by_data(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.nonzero().shape[0] > 3 else x

    with pytest.raises(UserError, match="data-dependent"):
        ts.from_torch(by_data, torch.ones(5))
    assert capfd.readouterr() == ("", "")
