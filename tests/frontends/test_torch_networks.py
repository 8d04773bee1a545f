"""Whole networks from PyTorch: compiled, they give what they give in PyTorch, in the same structure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.frontends.torch_networks import OTHERS, PAPER, network
from torch.utils import _pytree as pytree

import tensorsmith as ts
from tensorsmith.frontends.torch.backend import backend

pytestmark = pytest.mark.peers


def _called(module: Any, inputs: Any) -> Any:
    with torch.no_grad():
        return module(**inputs) if isinstance(inputs, Mapping) else module(inputs)


def _assert_same(got: Any, want: Any) -> None:
    """The same structure, and every tensor within 1e-4 of the largest element."""
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    assert got_spec == want_spec
    assert any(isinstance(w, torch.Tensor) for w in want_leaves)
    for g, w in zip(got_leaves, want_leaves):
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        assert g.dtype == w.dtype and g.shape == w.shape
        if w.is_floating_point():
            scale = max(1.0, float(w.abs().max()))
            assert float((g - w).abs().max()) <= 1e-4 * scale
        else:
            assert torch.equal(g, w)


@pytest.mark.parametrize("name", [*PAPER, *OTHERS])
def test_a_network_gives_what_it_gives_in_pytorch(name: str) -> None:
    module, inputs = network(name)
    executable = ts.compile(ts.from_torch(module, inputs))
    _assert_same(_called(executable, inputs), _called(module, inputs))


def _kernels(model: ts.Model) -> int:
    return sum(task.weight for task in model.tasks())


@pytest.mark.parametrize("name", ["convnext", "whisper_encoder", "unet", "deeplab", "tagger", "squeeze_excite"])
def test_a_network_has_no_more_kernels_than_its_onnx_file(name: str, tmp_path: Path) -> None:
    module, inputs = network(name)
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else ((inputs,), None)
    file = str(tmp_path / "network.onnx")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, args, file, kwargs=kwargs, dynamo=False, opset_version=17)
    more = name == "tagger"  # the results of both directions are joined by a copy
    assert _kernels(ts.from_torch(module, inputs)) <= _kernels(ts.load(file)) + more


@pytest.mark.parametrize("name", ["mobilenet_v2", "bert", "llama", "deeplab", "tagger", "clip"])
def test_torch_compile_runs_a_network_without_falling_back(name: str) -> None:
    module, inputs = network(name)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch.compile with the backend tensorsmith")
        compiled = torch.compile(module, backend=backend)
        for _ in range(2):
            _assert_same(_called(compiled, inputs), _called(module, inputs))
