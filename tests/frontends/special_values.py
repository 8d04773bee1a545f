"""Values at which formulas that are right elsewhere go wrong, and the comparison of results at them with PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Function = Callable[..., torch.Tensor]
Mask = Callable[..., torch.Tensor]  # of the result, the one that PyTorch gives, and the arguments


def floats(dtype: torch.dtype) -> torch.Tensor:
    """Zeros, halves for rounding, infinities, NaN, the ends of the range, subnormals, neighbours of 1, of both signs."""
    facts = torch.finfo(dtype)
    tiny = facts.smallest_normal
    sizes = [0.0, 0.5, 1.5, 2.5, 0.1, 0.3, 1e-3, 1.0, 1 - facts.eps / 2, 1 + facts.eps, 2.0, 3.0, 7.0, 20.0, 88.0, 100.0]
    sizes += [float("inf"), facts.max, facts.max / 2, facts.eps, tiny, tiny * facts.eps, tiny * (1 - facts.eps)]
    return torch.tensor([*sizes, *(-x for x in sizes), float("nan")], dtype=torch.float64).to(dtype)


def integers(dtype: torch.dtype) -> torch.Tensor:
    """The ends of the range and their neighbours, and small numbers."""
    facts = torch.iinfo(dtype)
    small = [n for n in (-7, -3, -2, -1, 0, 1, 2, 3, 7, 100) if n >= facts.min]
    return torch.tensor([*small, facts.min, facts.min + 1, facts.max - 1, facts.max], dtype=dtype)


def pairs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each with each."""
    a, b = torch.meshgrid(x, x, indexing="ij")
    return a.contiguous(), b.contiguous()


def wrong(got: torch.Tensor, want: torch.Tensor, units: float) -> torch.Tensor:
    """Where results differ: NaN is NaN, zeros have signs, other floats may be off by `units` in the last place."""
    if not want.dtype.is_floating_point:
        return got != want
    facts, g, w = torch.finfo(want.dtype), got.double(), want.double()
    last = facts.eps * torch.maximum(w.abs(), torch.tensor(facts.smallest_normal, dtype=torch.float64))
    close = ((g - w).abs() <= units * last) & w.isfinite()
    return ~(((g == w) | close) & (g.signbit() == w.signbit()) | g.isnan() & w.isnan())


def found(
    name: str, got: torch.Tensor, want: torch.Tensor, args: Sequence[torch.Tensor], units: float, excepted: Sequence[Mask]
) -> list[str]:
    """What is wrong with a result, some of it, but for what is excepted."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return [f"{name}: {got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"]
    bad = wrong(got, want, units)
    for mask in excepted:
        bad &= ~mask(got, want, *args)
    places: list[Any] = bad.nonzero().tolist()[:4]
    return [
        f"{name}({', '.join(str(x[tuple(i)].item()) for x in args)}) is {got[tuple(i)].item()}, not {want[tuple(i)].item()}"
        for i in places
    ]
