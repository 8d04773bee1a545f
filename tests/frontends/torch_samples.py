"""PyTorch's own samples of its operators (OpInfo), through `from_torch` and the reference evaluator."""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
import unittest
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.frontends.torch.export import export
from tensorsmith.frontends.torch.table import operator_name, table


@functools.cache
def operators() -> dict[str, Any]:
    """The operators that PyTorch has samples of, by name and variant."""
    if importlib.util.find_spec("expecttest") is None:  # PyTorch's tests inherit from it; the samples need nothing of it
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    found = {}
    for op in op_db:
        if torch.float32 in op.supported_dtypes("cpu"):
            found[f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name] = op
    return found


@dataclass(frozen=True)
class Sample:
    """One call of an operator: its tensors, and what calls it with others in their places."""

    tensors: tuple[torch.Tensor, ...]
    call: Callable[[Sequence[torch.Tensor]], Any]


def samples(name: str, most: int) -> list[Sample]:
    """Up to so many samples of an operator, from all over its list."""
    op = operators()[name]
    torch.manual_seed(0)
    found = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
    step = max(1, len(found) // most)
    return [_sample(op, s) for s in found[::step][:most]]


def _sample(op: Any, given: Any) -> Sample:
    leaves, spec = pytree.tree_flatten((given.input, given.args, given.kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(tensors: Sequence[torch.Tensor]) -> Any:
        full = list(leaves)
        for n, tensor in zip(places, tensors):
            full[n] = tensor
        first, args, kwargs = pytree.tree_unflatten(full, spec)
        return op.op(first, *args, **kwargs)

    return Sample(tuple(leaves[n].detach().clone() for n in places), call)


class _Calls(torch.nn.Module):
    """Several samples as one module."""

    def __init__(self, called: Sequence[Sample]) -> None:
        super().__init__()
        self.called = list(called)

    def forward(self, *tensors: torch.Tensor) -> Any:
        results, left = [], list(tensors)
        for sample in self.called:
            results.append(sample.call([t.clone() for t in left[: len(sample.tensors)]]))
            left = left[len(sample.tensors) :]
        return tuple(results)


@dataclass
class Outcome:
    """What became of some samples: which operators of the table took part in those that were right."""

    right: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    covered: set[str] = field(default_factory=set)


def check(called: Sequence[Sample]) -> Outcome:
    """Runs samples together, or one by one where one of them is refused."""
    outcome = Outcome()
    try:
        _check_together(called, outcome)
    except UserError as problem:
        if len(called) == 1:
            outcome.refused.append(str(problem))
        for sample in called if len(called) > 1 else ():
            try:
                _check_together([sample], outcome)
            except UserError as reason:
                outcome.refused.append(str(reason))
    return outcome


def _check_together(called: Sequence[Sample], outcome: Outcome) -> None:
    module, inputs = _Calls(called).eval(), tuple(t for s in called for t in s.tensors)
    with torch.no_grad():
        want = module(*inputs)
    model = ts.from_torch(module, inputs)
    taken = {v.name for v in model.inputs}
    flat = {f"tensors_{n}": t for n, t in enumerate(inputs)}
    got = model.evaluate({name: t.contiguous().numpy() for name, t in flat.items() if name in taken})
    results = model.convention.structured([torch.from_numpy(np.asarray(a)) for a in got.values()])  # type: ignore[attr-defined]
    wrong = [w for w in (difference(g, e) for g, e in zip(pytree.tree_leaves(results), pytree.tree_leaves(want))) if w]
    outcome.wrong += wrong
    outcome.right += len(called) if not wrong else 0
    if not wrong:
        nodes = export(module, inputs).graph.nodes
        outcome.covered |= {operator_name(n.target) for n in nodes if n.op == "call_function"} & set(table())


def difference(got: Any, want: Any) -> str:
    """What is wrong with a result; "" if nothing is."""
    if not isinstance(want, torch.Tensor):
        return "" if got == want else f"{got!r} for {want!r}"
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if torch.allclose(got.double(), want.double(), rtol=1e-4, atol=2e-5, equal_nan=True):
        return ""
    off = (got.double() - want.double()).abs()
    worst = int(off.nan_to_num(nan=float("inf")).argmax())
    return f"{got.flatten()[worst]} for {want.flatten()[worst]} at {worst} of {list(want.shape)}"
