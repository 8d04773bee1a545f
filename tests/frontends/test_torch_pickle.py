"""Modules as models and executables: copied, and not pickled."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import tensorsmith as ts
from tensorsmith.errors import UserError

pytestmark = pytest.mark.peers


def test_copies_are_called_as_the_module_is_and_pickling_says_what_to_do() -> None:
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    x = torch.randn(2, 8)
    model = ts.from_torch(module, x)
    executable = ts.compile(model)
    with torch.no_grad():
        wanted = module(x)
    for found in (copy.copy(executable), copy.deepcopy(executable), ts.compile(copy.copy(model)), ts.compile(copy.deepcopy(model))):
        assert type(found) is type(executable) and isinstance(found(x), torch.Tensor)
        torch.testing.assert_close(found(x), wanted, rtol=1e-4, atol=1e-5)
    for thing in (model, executable):
        assert type(thing).__name__ in repr(thing)
        with pytest.raises(UserError, match=r"cannot be pickled.*use save\(\)"):
            pickle.dumps(thing)
