"""Element types and tensors of PyTorch as ours, and back."""

from __future__ import annotations

import numpy as np
import torch

from tensorsmith.elements import TABLE
from tensorsmith.errors import UserError
from tensorsmith.graph.graph import Array

TYPES: dict[torch.dtype, str] = {getattr(torch, facts.long_name): name for name, facts in TABLE.items()}


def type_of(given: torch.dtype, what: object) -> str:
    """Our name of a type; `what` has it, for the error."""
    if given not in TYPES:
        raise UserError(f"{what} is {_short(given)}; supported are {', '.join(map(_short, TYPES))}")
    return TYPES[given]


def _short(given: torch.dtype) -> str:
    return str(given).removeprefix("torch.")


def check_tensor(tensor: torch.Tensor, what: object) -> str:
    """The type of a tensor that code of ours can read: dense, on the CPU, of a type we have."""
    if tensor.device.type != "cpu":
        raise UserError(f"{what} is on the device {tensor.device}; only the CPU is supported")
    if tensor.layout is not torch.strided:
        raise UserError(f"{what} is {_short_layout(tensor)}; only dense tensors are supported")
    return type_of(tensor.dtype, what)


def _short_layout(tensor: torch.Tensor) -> str:
    return str(tensor.layout).removeprefix("torch.")


Order = tuple[int, ...]  # dimensions, the outermost first


def memory_order(tensor: torch.Tensor) -> Order | None:
    """The order in which a tensor's dimensions lie in memory; None where it is their own, or where memory has gaps."""
    if tensor.is_contiguous():
        return None
    order = tuple(sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d)))
    return order if tensor.permute(order).is_contiguous() else None


def inverse(order: Order) -> Order:
    return tuple(order.index(d) for d in range(len(order)))


def array_of(tensor: torch.Tensor) -> Array:
    """The elements of a tensor, contiguous. They are copied only where they are not so already."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if not tensor.is_contiguous() or tensor.is_neg():
        tensor = tensor.resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:  # which NumPy's own functions know nothing of
        return tensor.view(torch.uint16).numpy().view(TABLE["bf16"].numpy)
    return tensor.numpy()


def copied(tensor: torch.Tensor) -> Array:
    """The elements of a tensor, in memory of their own: nobody changes them afterwards."""
    return np.array(array_of(tensor), order="C", copy=True)


def tensor_of(array: Array) -> torch.Tensor:
    """A tensor on the memory of an array."""
    if array.dtype == TABLE["bf16"].numpy:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)
