"""Every operator of ATen in the table, by samples of PyTorch's own tests, or called directly where those do not reach it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontends.torch_samples import check, difference, operators, samples
from torch.utils import _pytree as pytree

import tensorsmith as ts
from tensorsmith.frontends.torch.export import export
from tensorsmith.frontends.torch.table import operator_name, table

pytestmark = pytest.mark.peers

#: the operators that PyTorch has samples of, and what of the table takes part in them
SAMPLED: dict[str, tuple[str, ...]] = {}

aten = torch.ops.aten
A, B = torch.randn(3, 4), torch.randn(3, 4)
I, J = torch.tensor([[5, -3, 8], [0, 7, -6]]), torch.tensor([[3, 2, -5], [1, 4, 2]])

#: the others, each with arguments to call it with
CALLED: dict[str, tuple[Any, ...]] = {
    "add.Scalar": (A, 2.5, 3),
    "sub.Scalar": (A, 2.5, 3),
    "mul.Scalar": (I, 3),
    "div.Scalar": (I, 3),
    "div.Scalar_mode": (I, 3, "floor"),
    "fmod.Scalar": (I, 3),
    "remainder.Scalar_Tensor": (7, J),
    "pow.Scalar": (2.5, A),
    "bitwise_and.Tensor": (I, J),
    "bitwise_and.Scalar": (I, 6),
    "bitwise_or.Tensor": (I, J),
    "bitwise_or.Scalar": (I, 6),
    "bitwise_xor.Tensor": (I, J),
    "bitwise_xor.Scalar": (I, 6),
    "bitwise_not.default": (I,),
    "bitwise_left_shift.Tensor": (I, J.abs()),
    "bitwise_left_shift.Tensor_Scalar": (I, 2),
    "bitwise_right_shift.Tensor": (I, J.abs()),
    "bitwise_right_shift.Tensor_Scalar": (I, 1),
    "detach.default": (A,),
    "lift_fresh_copy.default": (A,),
    "fill.Tensor": (A, torch.tensor(2.5)),
    "_safe_softmax.default": (torch.tensor([[1.0, 2.0], [-torch.inf, -torch.inf]]), -1),
    "scatter.reduce": (A, 1, torch.tensor([[0, 1, 1]]), B, "add"),
    "scatter.value_reduce": (A, 1, torch.tensor([[0, 2, 3]]), 2.0, "multiply"),
    "grid_sampler_3d.default": (torch.randn(1, 2, 3, 4, 5), torch.rand(1, 2, 2, 2, 3) * 2 - 1, 0, 0, False),
    "max_pool3d_with_indices.default": (torch.randn(1, 2, 4, 4, 4), [2, 2, 2]),
    "upsample_nearest1d.vec": (torch.randn(1, 2, 5), None, [1.7]),
}

#: their content is undefined
UNDEFINED = {"empty.memory_format", "empty_like.default"}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_give_what_pytorch_gives(name: str) -> None:
    outcome = check(samples(name, most=4))
    assert not outcome.wrong and outcome.right
    assert set(SAMPLED[name]) <= outcome.covered


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLED)
def test_all_samples_give_what_pytorch_gives(name: str) -> None:
    assert not check(samples(name, most=60)).wrong


@pytest.mark.long
def test_no_sample_of_any_operator_is_wrong() -> None:
    """What is refused is refused; what is not is right. Samples with random or undefined results are left out."""
    random = ("empty", "rand", "bernoulli", "dropout", "multinomial", "normal", "svd_lowrank", "pca_lowrank", "rrelu")
    others = [name for name in operators() if name not in SAMPLED and not any(word in name for word in random)]
    wrong = {name: found for name in others if (found := check(samples(name, most=6)).wrong)}
    assert wrong == {}


def _called(name: str) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """An operator as a function of the tensors among its arguments."""
    packet, overload = name.split(".")
    leaves, spec = pytree.tree_flatten(CALLED[name])
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        full = list(leaves)
        for n, tensor in zip(places, tensors):
            full[n] = tensor
        return getattr(getattr(aten, packet), overload)(*pytree.tree_unflatten(full, spec))

    return call, tuple(leaves[n] for n in places)


@pytest.mark.parametrize("name", CALLED)
def test_operators_called_directly_give_what_pytorch_gives(name: str) -> None:
    call, tensors = _called(name)
    model = ts.from_torch(call, tensors)
    got = model.evaluate([t.numpy() for t in tensors])
    want = [w for w in pytree.tree_leaves(call(*tensors)) if isinstance(w, torch.Tensor)]
    assert [difference(torch.as_tensor(g), w) for g, w in zip(got.values(), want, strict=True)] == [""] * len(want)
    held = type("Held", (torch.nn.Module,), {"forward": lambda self, *given: call(*given)})()
    assert name in {operator_name(n.target) for n in export(held, tensors).graph.nodes}


def test_every_operator_of_the_table_is_tried() -> None:
    assert {*CALLED, *UNDEFINED, *(c for covered in SAMPLED.values() for c in covered)} == set(table())


def test_undefined_content_has_the_right_shape() -> None:
    def made(x: torch.Tensor) -> Any:
        return torch.empty(2, 3, dtype=torch.int32), torch.empty_like(x)

    found = ts.from_torch(made, A).outputs
    assert [(v.shape, v.dtype) for v in found] == [((2, 3), "i32"), ((3, 4), "f32")]
