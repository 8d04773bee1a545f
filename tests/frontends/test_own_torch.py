"""Operators of one's own, in PyTorch: custom operators by their definitions, through `from_torch` and `torch.compile`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.frontends import own, register
from tensorsmith.graph import operators

pytestmark = pytest.mark.peers

Tensor = torch.Tensor


@torch.library.custom_op("tensorsmith_tests::swish", mutates_args=())
def swish(x: Tensor, beta: float = 1.0, scale: Tensor | None = None) -> Tensor:
    y = x * torch.sigmoid(beta * x)
    return y if scale is None else y * scale


@swish.register_fake
def _(x: Tensor, beta: float = 1.0, scale: Tensor | None = None) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("tensorsmith_tests::split", mutates_args=())
def split(tensors: list[Tensor], at: int) -> tuple[Tensor, Tensor]:
    whole = sum(tensors)
    return whole[:at].clone(), whole[at:].clone()


@split.register_fake
def _(tensors: list[Tensor], at: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(tensors[0][:at]), torch.empty_like(tensors[0][at:])


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch._dynamo.reset()
    monkeypatch.setattr(own, "_TORCH", {})
    before = set(operators.table())
    yield
    for name in set(operators.table()) - before:
        operators._TABLE.pop(name)
    torch._dynamo.reset()


def define_swish() -> None:
    @register(torch="tensorsmith_tests::swish")
    def defined(x, scale=None, *, beta=1.0):
        y = ts.compute(x.shape, lambda *i: x[i] * ts.sigmoid(beta * x[i]), name="y")
        return y if scale is None else ts.compute(x.shape, lambda i, j: y[i, j] * scale[j], name="scaled")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
        self.scale = torch.nn.Parameter(torch.arange(6.0))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.ops.tensorsmith_tests.swish(self.layer(x), 2.0, self.scale)
        return torch.relu(torch.ops.tensorsmith_tests.swish(h)) + x


X = torch.linspace(-2, 2, 24).reshape(4, 6)


def test_from_torch_and_torch_compile() -> None:
    net = Net().eval()
    with pytest.raises(UserError, match=r"tensorsmith_tests\.swish"):
        ts.from_torch(net, (X,))
    define_swish()
    want = net(X).detach()
    torch.testing.assert_close(ts.compile(ts.from_torch(net, (X,)))(X), want, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(net, backend="tensorsmith", fullgraph=True)(X), want, rtol=1e-5, atol=1e-5)


def test_lists_of_tensors_and_several_results() -> None:
    @register(torch="tensorsmith_tests::split")
    def defined(*tensors, at):
        whole = ts.compute(tensors[0].shape, lambda i, j: sum((t[i, j] for t in tensors[1:]), tensors[0][i, j]), name="whole")
        rows, columns = whole.shape
        return (
            ts.compute((at, columns), lambda i, j: whole[i, j], name="head"),
            ts.compute((rows - at, columns), lambda i, j: whole[i + at, j], name="tail"),
        )

    class Split(torch.nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            head, tail = torch.ops.tensorsmith_tests.split([x, 2 * x, x], 1)
            return head + 1, tail

    for got, want in zip(ts.compile(ts.from_torch(Split(), (X,)))(X), Split()(X)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_an_argument_that_the_definition_does_not_take_is_refused() -> None:
    register(torch="tensorsmith_tests::swish")(lambda x, scale=None: ts.compute(x.shape, lambda *i: x[i]))
    with pytest.raises(UserError, match=r"the argument beta=2.0 is not supported"):
        ts.from_torch(Net(), (X,))


def test_a_result_unlike_pytorchs_is_refused() -> None:
    register(torch="tensorsmith_tests::swish")(lambda x, scale=None, *, beta: ts.compute((3,), lambda i: x[i, i]))
    with pytest.raises(UserError, match=r"gives f32\[3\]; PyTorch says f32\[4, 6\]"):
        ts.from_torch(Net(), (X,))


def test_an_operator_of_pytorchs_own() -> None:
    register(torch="aten::special_i1", elementwise=True)(
        lambda x: ts.compute(x.shape, lambda *i: x[i] / 2.0 * (1.0 + x[i] * x[i] / 8.0))
    )
    got = ts.compile(ts.from_torch(lambda x: torch.special.i1(x), (X / 8,)))(X / 8)
    torch.testing.assert_close(got, torch.special.i1(X / 8), rtol=1e-4, atol=1e-5)
