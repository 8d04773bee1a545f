"""The forms of a case that `torch.compile` makes: convolutions in each layout with the weight frozen, all else of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from formulations import Convolution, convolutions
from frameworks import torch_compiled
from peers_numpy import EPSILON
from peers_torch import Form, Make, eager, layouts, restored
from tensorsmith.ops.catalogue import Case

F = torch.nn.functional


def forms(case: Case, arrays: Sequence[np.ndarray], threads: int) -> Iterator[Form]:
    """Name, what to run, and its result in our layout. All of it is meant to run inside `torch.inference_mode()`."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()  # what was compiled for other cases counts against the most that it compiles of one function
    for convolution in convolutions(case, arrays):
        for layout, x, weight in layouts(convolution):
            run = torch_compiled(_Layer(convolution, weight).eval(), [x])
            yield " ".join(filter(None, ("torch.compile", convolution.label, layout))), run, restored(convolution, run)
    if case.operator in _OTHERS:
        run = torch_compiled(_OTHERS[case.operator], [torch.from_numpy(array) for array in arrays])
        yield "torch.compile", run, _numpy(run)


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
