"""`from_torch` with `dynamic_shapes`: modules of open dimensions."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.frontends.torch.open_model import TorchOpenModel
from tensorsmith.graph.model import Model
from tensorsmith.runtime.variants.executable import OpenExecutable

pytestmark = pytest.mark.peers


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.layer(x))
        return OrderedDict(y=y, mean=y.mean(-1))


def opened(module: Any, example: Any, dynamic_shapes: Any) -> TorchOpenModel:
    made = ts.from_torch(module, example, dynamic_shapes=dynamic_shapes)
    assert isinstance(made, TorchOpenModel)
    return made


@torch.no_grad()
def test_any_size_in_the_modules_own_structure(tmp_path: Path) -> None:
    module = Dense().eval()
    model = opened(module, torch.randn(3, 6), {"x": {0: Dim("batch")}})
    assert repr(model) == "<TorchOpenModel Dense(x: f32[batch, 6]): batch=?>"
    executable = ts.compile(model.with_sizes(batch=[2]))
    for rows in (1, 2, 5):
        x = torch.randn(rows, 6)
        got, wanted = executable(x), module(x)
        assert type(got) is OrderedDict and all(torch.allclose(got[k], wanted[k], atol=1e-5) for k in wanted)
    assert torch.allclose(executable.run({"x": x})["y"], wanted["y"], atol=1e-5)
    assert [v.sizes["batch"] for v in executable.variants] == [1, 2, 5]
    again = copy.deepcopy(executable)
    assert torch.allclose(again(x)["y"], wanted["y"], atol=1e-5) and repr(again) == repr(executable)
    with pytest.raises(UserError, match=r"cannot be pickled; use save\(\)"):
        pickle.dumps(executable)
    executable.save(tmp_path / "dense.tsm")
    loaded = ts.load_executable(tmp_path / "dense.tsm")
    assert isinstance(loaded, OpenExecutable)
    np.testing.assert_allclose(loaded(x.numpy())[0], wanted["y"].numpy(), atol=1e-5)


@torch.no_grad()
def test_a_larger_size_serves_meanwhile() -> None:
    module = Dense().eval()
    executable = ts.compile(
        opened(module, torch.randn(3, 6), ({0: Dim("batch")},)).with_sizes(batch=[8]), background=True, ranges=False
    )
    x = torch.randn(5, 6)
    got, wanted = executable(x), module(x)
    assert all(torch.allclose(got[k], wanted[k], atol=1e-5) for k in wanted)
    assert executable._within == {((5,), (8,)): ((5, 4), (5,))}
    executable.wait()
    assert [v.sizes["batch"] for v in executable.variants] == [5, 8]


@torch.no_grad()
def test_later_changes_of_the_module_are_not_seen() -> None:
    module, x = Dense().eval(), torch.randn(3, 6)
    wanted = module(x)
    executable = ts.compile(opened(module, torch.randn(2, 6), {"x": {0: Dim("batch")}}))
    module.layer.weight.zero_()
    assert torch.allclose(executable(x)["y"], wanted["y"], atol=1e-5)


@torch.no_grad()
def test_several_dimensions_and_functions() -> None:
    def joined(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, b], 1) * 2

    batch = Dim("batch")
    shapes = {"a": {0: batch, 1: Dim("left")}, "b": {0: batch, 1: Dim.AUTO}}
    model = opened(joined, (torch.randn(2, 3), torch.randn(2, 5)), shapes)
    assert model.symbols == ("batch", "left", "b_1")
    executable = ts.compile(model)
    a, b = torch.randn(4, 2), torch.randn(4, 6)
    assert torch.equal(executable(a, b), joined(a, b))
    with pytest.raises(UserError, match="batch is 4 in a and 3 in b"):
        executable(a, b[:3])


def test_what_torch_does_not_allow() -> None:
    module, x = Dense().eval(), torch.randn(3, 6)
    with pytest.raises(UserError, match=r"torch\.export cannot turn Dense into a graph"):
        ts.from_torch(module, x, dynamic_shapes={"x": {1: Dim("width")}})
    executable = ts.compile(opened(module, x, {"x": {0: Dim("batch", min=3, max=6)}}))
    with pytest.raises(UserError, match=r"batch=7: torch\.export allows 3 to 6 for batch"):
        executable(torch.randn(7, 6))
    doubled = {"a": {0: Dim("n")}, "b": {0: 2 * Dim("n")}}
    with pytest.raises(UserError, match=r"dimension 0 of b is 2\*.*; only dimensions that are open by themselves"):
        ts.from_torch(lambda a, b: torch.cat([a, a]) + b, (torch.randn(3), torch.randn(6)), dynamic_shapes=doubled)


def test_nothing_is_left_open() -> None:
    assert isinstance(ts.from_torch(Dense().eval(), torch.randn(3, 6), dynamic_shapes={"x": {0: Dim.STATIC}}), Model)
