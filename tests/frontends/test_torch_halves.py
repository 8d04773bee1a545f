"""Modules of f16 and bf16 from PyTorch: tensors of their types in and out, as near to f32 as PyTorch's own results."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tensorsmith as ts

pytestmark = pytest.mark.peers

KINDS = [torch.float16, torch.bfloat16]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.LayerNorm(64),
        nn.GELU(),
        nn.Linear(64, 10),
        nn.Softmax(-1),
    ).eval()


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_of_halves(kind: torch.dtype) -> None:
    module = network().to(kind)
    x = torch.randn(2, 3, 16, 16).to(kind)
    exact = copy.deepcopy(module).to(torch.float64)(x.double())
    got = ts.compile(ts.from_torch(module, x))(x)
    assert got.dtype == kind
    theirs = (module(x).double() - exact).abs().max()
    assert (got.double() - exact).abs().max() <= 2 * theirs + torch.finfo(kind).eps * exact.max()


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_by_torch_compile(kind: torch.dtype) -> None:
    module = network().to(kind)
    x = torch.randn(2, 3, 16, 16).to(kind)
    got = torch.compile(module, backend="tensorsmith")(x)
    assert got.dtype == kind
    torch.testing.assert_close(got, module(x), rtol=0, atol=16 * torch.finfo(kind).eps * float(module(x).max()))


@torch.no_grad()
@pytest.mark.parametrize("kind", [torch.int16, torch.uint16, torch.uint32, torch.uint64])
def test_integers_of_other_sizes(kind: torch.dtype) -> None:
    x = torch.arange(12).reshape(3, 4).to(kind)
    got = ts.compile(ts.from_torch(lambda v: v.reshape(4, 3).T, (x,)))(x)
    assert got.dtype == kind
    assert torch.equal(got.to(torch.int64), x.to(torch.int64).reshape(4, 3).T)


@torch.no_grad()
@pytest.mark.parametrize("weights", ["bf16", "f16", "int8"])
def test_weights_in_fewer_bits(weights: str) -> None:
    module, x = network(), torch.randn(2, 3, 16, 16)
    model = ts.from_torch(module, x)
    got = ts.compile(model, weights=weights)(x)
    assert got.dtype == torch.float32
    want = module(x)
    assert 0 < (got - want).abs().max() < 0.02
    assert model.with_weights(weights).weights_error().outputs[0].share < 0.05
