"""The forms of a case that `torch.compile` makes: constants frozen in each layout, and as it comes ("stock") in the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from formulations import Convolution, convolutions
from frameworks import torch_compiled
from peers_numpy import EPSILON
from peers_torch import Form, Make, eager, layouts, restored, subgraph_layouts, subgraph_restored
from subgraphs import BUILDERS, Subgraph, subgraph
from tensorsmith.ops.catalogue import Case

F = torch.nn.functional


def forms(case: Case, arrays: Sequence[np.ndarray], threads: int) -> Iterator[Form]:
    """Name, what to run, and its result in our layout. All of it is meant to run inside `torch.inference_mode()`."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()  # what was compiled for other cases counts against the most that it compiles of one function
    for convolution in convolutions(case, arrays):
        every = list(layouts(convolution))
        for way, (layout, x, weight) in [*(("", one) for one in every), ("stock", every[-1])]:
            run = torch_compiled(_Layer(convolution, weight).eval(), [x], way)
            yield _name(way, convolution.label, layout), run, restored(convolution, run)
    if case.operator in BUILDERS:
        given = subgraph(case, arrays)
        ways = list(subgraph_layouts(given))
        for way, (layout, tensors, constants) in [*(("", one) for one in ways), ("stock", ways[-1])]:
            run = torch_compiled(_Subgraph(given, constants).eval(), tensors, way)
            yield _name(way, layout), run, subgraph_restored(given, run)
    if case.operator in _OTHERS:
        for way in ("", "stock"):
            run = torch_compiled(_OTHERS[case.operator], [torch.from_numpy(array) for array in arrays], way)
            yield _name(way), run, _numpy(run)


def _name(*words: str) -> str:
    return " ".join(filter(None, ("torch.compile", *words)))


def _numpy(run: Make) -> Callable[[], np.ndarray]:
    return lambda: run().numpy()


class _Layer(torch.nn.Module):
    """A convolution with its constants, which `torch.compile` may freeze."""

    def __init__(self, convolution: Convolution, weight: torch.Tensor) -> None:
        super().__init__()
        bias = convolution.bias
        self.convolution = convolution
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.bias = None if bias is None else torch.nn.Parameter(torch.from_numpy(bias), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return eager(self.convolution, x, self.weight, self.bias)()


class _Subgraph(torch.nn.Module):
    """A subgraph with its constants."""

    def __init__(self, given: Subgraph, constants: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.function = given.torch
        self.constants = torch.nn.ParameterList([torch.nn.Parameter(c, requires_grad=False) for c in constants])

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs, *self.constants)


def _scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query.permute(0, 2, 1, 3) @ key.permute(0, 2, 3, 1), -1)


def _norm(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(x.reshape(len(x), -1), dim=1)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _layer_norm(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], scale, shift, EPSILON)


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def _add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


_OTHERS: dict[str, Callable[..., torch.Tensor]] = {
    "GMM": _matmul, "matmul": _matmul, "TBS": _scores, "NRM": _norm, "add": _add, "softmax": _softmax,
    "layer_norm": _layer_norm,
}  # fmt: skip
