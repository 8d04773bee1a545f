"""PyTorch's forms of a case: eager in each layout, and oneDNN with weights packed beforehand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from formulations import Convolution, convolutions
from peers_numpy import EPSILON
from subgraphs import BUILDERS, Subgraph, subgraph
from tensorsmith.ops.catalogue import Case

F = torch.nn.functional
Form = tuple[str, Callable[[], object], Callable[[], np.ndarray]]
Make = Callable[[], torch.Tensor]


def forms(case: Case, arrays: Sequence[np.ndarray], threads: int) -> Iterator[Form]:
    """Name, what to run, and its result in our layout. All of it is meant to run inside `torch.inference_mode()`."""
    torch.set_num_threads(threads)
    for convolution in convolutions(case, arrays):
        yield from _convolution(convolution)
    if case.operator in BUILDERS:
        given = subgraph(case, arrays)
        for layout, tensors, constants in subgraph_layouts(given):
            run = functools.partial(given.torch, *tensors, *constants)
            yield " ".join(filter(None, ("torch", layout))), run, subgraph_restored(given, run)
    others = {
        "GMM": _matmul, "matmul": _matmul, "TBS": _scores, "NRM": _norm, "add": _add, "softmax": _softmax,
        "layer_norm": _layer_norm,
    }  # fmt: skip
    if case.operator in others:
        tensors = [torch.from_numpy(array) for array in arrays]
        for name, run in others[case.operator](*tensors):
            yield f"torch {name}".strip(), run, _numpy(run)


def subgraph_layouts(given: Subgraph) -> Iterator[tuple[str, list[torch.Tensor], list[torch.Tensor]]]:
    """Inputs and constants; of images with channels first and last."""
    inputs, constants = ([torch.from_numpy(a) for a in some.values()] for some in (given.inputs, given.constants))
    yield "first" if given.image else "", inputs, constants
    if given.image:
        yield "last", *([_with_channels_last(t) for t in some] for some in (inputs, constants))


def _with_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def subgraph_restored(given: Subgraph, run: Make) -> Callable[[], np.ndarray]:
    return lambda: given.restore(run().numpy())


def _numpy(run: Make) -> Callable[[], np.ndarray]:
    return lambda: run().numpy()


# Convolutions.

_EAGER = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_EAGER_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def _convolution(c: Convolution) -> Iterator[Form]:
    bias = None if c.bias is None else torch.from_numpy(c.bias)
    for layout, x, weight in layouts(c):
        ways: dict[str, Make] = {"": eager(c, x, weight, bias)}
        if c.rank > 1:
            ways["packed"] = _packed(c, x, torch.from_numpy(c.weight), bias)
        for way, run in ways.items():
            yield " ".join(filter(None, ("torch", c.label, layout, way))), run, restored(c, run)


def layouts(c: Convolution) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Input and weight with channels first, and where torch knows it, with channels last."""
    weight = torch.from_numpy(c.weight)
    yield "first", torch.from_numpy(c.x_first), weight
    if c.rank in _CHANNELS_LAST:
        yield "last", torch.from_numpy(c.x).movedim(-1, 1), weight.contiguous(memory_format=_CHANNELS_LAST[c.rank])


def restored(c: Convolution, run: Make) -> Callable[[], np.ndarray]:
    return lambda: c.restore_first(run().numpy())


def eager(c: Convolution, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Make:
    if c.transposed:
        transposed = _EAGER_TRANSPOSED[c.rank]
        return lambda: transposed(x, weight, bias, c.stride, c.padding, 0, c.groups, c.dilation)
    conv = _EAGER[c.rank]
    if c.relu:
        return lambda: conv(x, weight, bias, c.stride, c.padding, c.dilation, c.groups).relu_()
    return lambda: conv(x, weight, bias, c.stride, c.padding, c.dilation, c.groups)


def _packed(c: Convolution, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Make:
    """oneDNN with the weight in the order it wants and ReLU fused: what torch.compile's frozen graphs call."""
    attribute = "relu" if c.relu else "none"
    ops, size = torch.ops.mkldnn, list(x.shape)
    if c.transposed:
        zeros = [0] * c.rank
        packed = ops._reorder_convolution_transpose_weight(weight, c.padding, zeros, c.stride, c.dilation, c.groups, size)
        return lambda: ops._convolution_transpose_pointwise(
            x, packed, bias, c.padding, zeros, c.stride, c.dilation, c.groups, attribute, [], ""
        )
    packed = ops._reorder_convolution_weight(weight, c.padding, c.stride, c.dilation, c.groups, size)
    return lambda: ops._convolution_pointwise(x, packed, bias, c.padding, c.stride, c.dilation, c.groups, attribute, [], "")


# The others. Each gives a name and what to run.


def _matmul(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[str, Make]]:
    """With b as it is, and with b's columns contiguous."""
    if a.ndim == 3 and len(a) == 1:
        for name, run in _matmul(a[0], b[0]):
            yield name, _with_batch(run)
        return
    out = a.new_empty(*a.shape[:-1], b.shape[-1])
    columns = b.mT.contiguous().mT
    multiply = torch.mm if a.ndim == 2 else torch.bmm
    yield "", lambda: multiply(a, b, out=out)
    yield "columns", lambda: multiply(a, columns, out=out)


def _with_batch(run: Make) -> Make:
    return lambda: run()[None]


def _scores(query: torch.Tensor, key: torch.Tensor) -> Iterator[tuple[str, Make]]:
    """The transposes belong to the operator, so the inputs stay (batch, length, heads, dim)."""
    q, k = query.permute(0, 2, 1, 3), key.permute(0, 2, 3, 1)
    yield "matmul", lambda: torch.softmax(q @ k, -1)
    yield "einsum", lambda: torch.softmax(torch.einsum("bihd,bjhd->bhij", query, key), -1)
    shape = (query.shape[0], query.shape[2], query.shape[1], key.shape[1])
    scores, out = torch.empty(shape), torch.empty(shape)

    def by_heads() -> torch.Tensor:
        """A matmul per batch element reads the heads where they are, without a copy."""
        for n in range(len(query)):
            torch.bmm(q[n], k[n], out=scores[n])
        return torch.softmax(scores, -1, out=out)

    yield "by heads", by_heads


def _norm(x: torch.Tensor) -> Iterator[tuple[str, Make]]:
    rows = x.reshape(len(x), -1)
    yield "vector_norm", lambda: torch.linalg.vector_norm(rows, dim=1)
    left, right = rows[:, None], rows[:, :, None]
    yield "bmm", lambda: torch.bmm(left, right).sqrt_().reshape(-1)
    if len(x) == 1:
        row = rows[0]
        yield "dot", lambda: torch.dot(row, row).sqrt_().reshape(1)


def _add(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[str, Make]]:
    out = torch.empty_like(a)
    yield "", lambda: torch.add(a, b, out=out)


def _softmax(x: torch.Tensor) -> Iterator[tuple[str, Make]]:
    out = torch.empty_like(x)
    yield "", lambda: torch.softmax(x, -1, out=out)


def _layer_norm(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> Iterator[tuple[str, Make]]:
    shape = x.shape[-1:]
    yield "", lambda: F.layer_norm(x, shape, scale, shift, EPSILON)
