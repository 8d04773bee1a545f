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
SAMPLED: dict[str, tuple[str, ...]] = {
    "T": ("permute.default",),
    "__getitem__": (
        "index.Tensor",
        "select.int",
    ),
    "__rdiv__": ("reciprocal.default",),
    "__rmatmul__": ("matmul.default",),
    "__rmul__": ("mul.Tensor",),
    "__rpow__": ("pow.Tensor_Tensor",),
    "_unsafe_masked_index": (
        "_unsafe_index.Tensor",
        "clamp.default",
    ),
    "_unsafe_masked_index_put_accumulate": ("_unsafe_index_put.default",),
    "abs": ("abs.default",),
    "acos": ("acos.default",),
    "acosh": ("acosh.default",),
    "add": ("add.Tensor",),
    "addmm": ("addmm.default",),
    "addmv": ("addmv.default",),
    "alias_copy": ("alias.default",),
    "amax": ("amax.default",),
    "amin": ("amin.default",),
    "any": (
        "any.default",
        "any.dim",
        "any.dims",
    ),
    "arange": ("arange.start_step",),
    "argmax": ("argmax.default",),
    "argmin": ("argmin.default",),
    "argsort": (
        "sort.default",
        "sort.stable",
    ),
    "as_strided": ("as_strided.default",),
    "asin": ("asin.default",),
    "asinh": ("asinh.default",),
    "atan": ("atan.default",),
    "atan2": ("atan2.default",),
    "atanh": ("atanh.default",),
    "atleast_1d": ("view.default",),
    "atleast_3d": ("unsqueeze.default",),
    "baddbmm": ("baddbmm.default",),
    "bmm": ("bmm.default",),
    "broadcast_to": ("expand.default",),
    "byte": ("_to_copy.default",),
    "cartesian_prod": ("_unsafe_view.default",),
    "cat": (
        "cat.default",
        "clone.default",
    ),
    "ceil": ("ceil.default",),
    "chunk": ("split_with_sizes.default",),
    "clamp": ("clamp.Tensor",),
    "constant_pad_nd": ("constant_pad_nd.default",),
    "cos": ("cos.default",),
    "cosh": ("cosh.default",),
    "count_nonzero": ("ne.Scalar",),
    "cross": (
        "index_select.default",
        "remainder.Scalar",
    ),
    "cumprod": ("cumprod.default",),
    "cumsum": ("cumsum.default",),
    "diag_embed": ("scalar_tensor.default",),
    "diagonal": ("diagonal.default",),
    "diff": (
        "copy.default",
        "sub.Tensor",
    ),
    "div.floor_rounding": ("div.Tensor_mode",),
    "div.no_rounding_mode": ("div.Tensor",),
    "dot": ("dot.default",),
    "einsum": ("sum.dim_IntList",),
    "eq": ("eq.Tensor",),
    "erf": ("erf.default",),
    "exp": ("exp.default",),
    "expm1": ("expm1.default",),
    "fill": ("fill.Scalar",),
    "flip": ("flip.default",),
    "floor": ("floor.default",),
    "fmod": ("fmod.Tensor",),
    "full": ("full.default",),
    "full_like": ("full_like.default",),
    "gather": ("gather.default",),
    "ge": ("ge.Tensor",),
    "gt": ("gt.Tensor",),
    "heaviside": ("lt.Scalar",),
    "index_put": ("index_put.default",),
    "isinf": ("isinf.default",),
    "isnan": ("isnan.default",),
    "le": ("le.Tensor",),
    "lerp": ("ge.Scalar",),
    "log": ("log.default",),
    "log10": ("log10.default",),
    "log1p": ("log1p.default",),
    "log2": ("log2.default",),
    "log_softmax": ("_log_softmax.default",),
    "logical_and": ("logical_and.default",),
    "logical_not": ("logical_not.default",),
    "logical_or": ("logical_or.default",),
    "logical_xor": ("logical_xor.default",),
    "logsumexp": ("logsumexp.default",),
    "lt": ("lt.Tensor",),
    "max.reduction_no_dim": ("max.default",),
    "max.reduction_with_dim": ("max.dim",),
    "maximum": ("maximum.default",),
    "mean": (
        "mean.default",
        "mean.dim",
    ),
    "min.reduction_no_dim": ("min.default",),
    "min.reduction_with_dim": ("min.dim",),
    "minimum": ("minimum.default",),
    "mm": ("mm.default",),
    "mv": ("mv.default",),
    "nan_to_num": ("eq.Scalar",),
    "ne": ("ne.Tensor",),
    "neg": ("neg.default",),
    "nn.functional.adaptive_avg_pool1d": ("adaptive_avg_pool1d.default",),
    "nn.functional.adaptive_avg_pool2d": ("adaptive_avg_pool2d.default",),
    "nn.functional.adaptive_avg_pool3d": ("adaptive_avg_pool3d.default",),
    "nn.functional.adaptive_max_pool1d": ("adaptive_max_pool1d.default",),
    "nn.functional.adaptive_max_pool2d": ("adaptive_max_pool2d.default",),
    "nn.functional.adaptive_max_pool3d": ("adaptive_max_pool3d.default",),
    "nn.functional.avg_pool1d": ("avg_pool1d.default",),
    "nn.functional.avg_pool3d": ("avg_pool3d.default",),
    "nn.functional.batch_norm": ("_native_batch_norm_legit_no_training.default",),
    "nn.functional.celu": ("gt.Scalar",),
    "nn.functional.conv1d": ("convolution.default",),
    "nn.functional.elu": ("elu.default",),
    "nn.functional.embedding": ("embedding.default",),
    "nn.functional.gelu": ("gelu.default",),
    "nn.functional.grid_sample": (
        "grid_sampler_2d.default",
        "grid_sampler_3d.default",
    ),
    "nn.functional.group_norm": ("native_group_norm.default",),
    "nn.functional.hardsigmoid": ("hardsigmoid.default",),
    "nn.functional.hardswish": ("hardswish.default",),
    "nn.functional.hardtanh": ("hardtanh.default",),
    "nn.functional.interpolate.bicubic": ("upsample_bicubic2d.vec",),
    "nn.functional.interpolate.bilinear": ("upsample_bilinear2d.vec",),
    "nn.functional.interpolate.linear": ("upsample_linear1d.vec",),
    "nn.functional.interpolate.nearest": (
        "upsample_nearest1d.vec",
        "upsample_nearest2d.vec",
        "upsample_nearest3d.vec",
    ),
    "nn.functional.interpolate.nearest-exact": (
        "_upsample_nearest_exact1d.vec",
        "_upsample_nearest_exact2d.vec",
        "_upsample_nearest_exact3d.vec",
    ),
    "nn.functional.interpolate.trilinear": ("upsample_trilinear3d.vec",),
    "nn.functional.layer_norm": ("native_layer_norm.default",),
    "nn.functional.leaky_relu": ("leaky_relu.default",),
    "nn.functional.linear": ("linear.default",),
    "nn.functional.local_response_norm": (
        "avg_pool2d.default",
        "pow.Tensor_Scalar",
    ),
    "nn.functional.max_pool2d": ("max_pool2d_with_indices.default",),
    "nn.functional.max_pool3d": ("max_pool3d_with_indices.default",),
    "nn.functional.mish": ("mish.default",),
    "nn.functional.pad.reflect": (
        "reflection_pad1d.default",
        "reflection_pad2d.default",
        "reflection_pad3d.default",
    ),
    "nn.functional.pad.replicate": (
        "replication_pad1d.default",
        "replication_pad2d.default",
        "replication_pad3d.default",
    ),
    "nn.functional.relu": ("relu.default",),
    "nn.functional.rms_norm": ("rms_norm.default",),
    "nn.functional.scaled_dot_product_attention": ("scaled_dot_product_attention.default",),
    "nn.functional.silu": ("silu.default",),
    "nn.functional.softplus": ("softplus.default",),
    "nn.functional.threshold": ("le.Scalar",),
    "prod": (
        "prod.default",
        "prod.dim_int",
    ),
    "remainder": ("remainder.Tensor",),
    "repeat": ("repeat.default",),
    "roll": ("roll.default",),
    "round": ("round.default",),
    "round.decimals_3": ("round.decimals",),
    "rsqrt": ("rsqrt.default",),
    "scatter": ("scatter.src",),
    "scatter_add": ("scatter_add.default",),
    "scatter_reduce.amax": ("scatter_reduce.two",),
    "select_scatter": ("select_scatter.default",),
    "sigmoid": ("sigmoid.default",),
    "sign": ("sign.default",),
    "sin": ("sin.default",),
    "sinh": ("sinh.default",),
    "slice_scatter": ("slice_scatter.default",),
    "softmax": ("_softmax.default",),
    "sqrt": ("sqrt.default",),
    "squeeze": ("squeeze.dims",),
    "sum": ("sum.default",),
    "tan": ("tan.default",),
    "tanh": ("tanh.default",),
    "tensor_split": ("slice.Tensor",),
    "topk": ("topk.default",),
    "tril": ("tril.default",),
    "triu": ("triu.default",),
    "trunc": ("trunc.default",),
    "var": ("var.correction",),
    "where": ("where.self",),
    "linalg.vector_norm": ("linalg_vector_norm.default",),
    "var_mean": ("var_mean.correction",),
}


def _recurrent(gates: int, biases: bool = True) -> list[torch.Tensor]:
    """The weights of a layer of 3 inputs and 2 hidden values, in both directions."""
    sizes = [(2 * gates, 3), (2 * gates, 2), *[(2 * gates,)] * (2 if biases else 0)]
    return [torch.randn(*size) for _ in range(2) for size in sizes]


aten = torch.ops.aten
A, B = torch.randn(3, 4), torch.randn(3, 4)
I, J = torch.tensor([[5, -3, 8], [0, 7, -6]]), torch.tensor([[3, 2, -5], [1, 4, 2]])

#: the others, each with arguments to call it with; the last may be those by name
CALLED: dict[str, tuple[Any, ...]] = {
    "add.Scalar": (A, 2.5, 3),
    "sub.Scalar": (A, 2.5, 3),
    "mul.Scalar": (I, 3),
    "div.Scalar": (I, 3),
    "div.Scalar_mode": (I, 3, {"rounding_mode": "floor"}),
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
    "unfold.default": (torch.randn(3, 11, 2), 1, 4, 3),
    "histc.default": (torch.tensor([0.0, 1.0, 1.5, -0.1, 3.0, 3.1, torch.nan, 2.0, 2.9]), 6, 0, 3),
    "fill.Tensor": (A, torch.tensor(2.5)),
    "_safe_softmax.default": (torch.tensor([[1.0, 2.0], [-torch.inf, -torch.inf]]), -1),
    "_native_batch_norm_legit.no_stats": (torch.randn(2, 3, 4), torch.randn(3), None, True, 0.1, 1e-5),
    "_native_batch_norm_legit_functional.default": (
        *(torch.randn(2, 3, 4), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3)),
        *(True, 0.1, 1e-5),
    ),
    "lstm.input": (torch.randn(4, 1, 3), list(torch.randn(2, 2, 1, 2)), _recurrent(4), True, 1, 0.0, False, True, False),
    "gru.input": (torch.randn(4, 2, 3), torch.randn(2, 4, 2), _recurrent(3), True, 1, 0.0, False, True, True),
    "rnn_tanh.input": (torch.randn(4, 1, 3), torch.randn(2, 1, 2), _recurrent(1, False), False, 1, 0.0, False, True, False),
    "rnn_relu.input": (torch.randn(4, 1, 3), torch.randn(2, 1, 2), _recurrent(1), True, 1, 0.0, False, True, False),
    "max_pool1d.default": (torch.randn(2, 3, 7), [3], [2], [1], [1], True),
    "max_pool2d.default": (torch.randn(2, 3, 7, 6), [3, 2], [2], [1, 0], [1, 2]),
    "max_pool3d.default": (torch.randn(1, 2, 4, 4, 4), [2]),
    "scatter.value": (A, 1, torch.tensor([[0, 2, 3]]), 2.0),
    "scatter.reduce": (A, 1, torch.tensor([[0, 1, 1]]), B, {"reduce": "add"}),
    "scatter.value_reduce": (A, 1, torch.tensor([[0, 2, 3]]), 2.0, {"reduce": "multiply"}),
}

#: of several results only the first is supported
FIRST = {"_native_batch_norm_legit.no_stats"}

#: of bf16 alone (below), and of another library (`test_torch_networks.py`)
ELSEWHERE = {"_grouped_mm.default", "transformers.grouped_mm_fallback.default"}

#: their content is undefined
UNDEFINED = {"empty.memory_format", "empty_like.default"}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_give_what_pytorch_gives(name: str) -> None:
    outcome = check(samples(name, most=6))
    if not outcome.right:  # samples come in patterns: just these may have an argument that is refused
        outcome = check(samples(name, most=12))
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
        args = pytree.tree_unflatten(full, spec)
        kwargs = args[-1] if isinstance(args[-1], dict) else {}
        result = getattr(getattr(aten, packet), overload)(*(args[:-1] if kwargs else args), **kwargs)
        return result[0] if name in FIRST else result

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
    assert {*CALLED, *ELSEWHERE, *UNDEFINED, *(c for covered in SAMPLED.values() for c in covered)} == set(table())


def test_undefined_content_has_the_right_shape() -> None:
    def made(x: torch.Tensor) -> Any:
        return torch.empty(2, 3, dtype=torch.int32), torch.empty_like(x)

    found = ts.from_torch(made, A).outputs
    assert [(v.shape, v.dtype) for v in found] == [((2, 3), "i32"), ((3, 4), "f32")]


def test_grouped_products() -> None:
    """Of rows that are sorted by groups; the second group is empty."""
    torch.manual_seed(0)
    x, weights = torch.randn(24, 16).bfloat16(), torch.randn(3, 16, 32).bfloat16()
    ends = torch.tensor([8, 8, 24], dtype=torch.int32)

    def grouped(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return aten._grouped_mm(x, weights, ends)

    got = torch.as_tensor(ts.compile(ts.from_torch(grouped, (x, weights, ends)))(x, weights, ends))
    want = torch.cat([x[:8] @ weights[0], x[8:] @ weights[2]])
    torch.testing.assert_close(got, want, rtol=2**-6, atol=2**-6)
