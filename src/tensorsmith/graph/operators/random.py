"""Random numbers, drawn anew in every call."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import random


@operator("draw", Kind.INJECTIVE)
def draw(call: Tensor, *, key: int, shape: tuple[int, ...], to: str, distribution: str, name: str) -> Tensor:
    """Numbers of a distribution, of a key and the number of the call."""
    return random.draw(call, key=key, shape=shape, to=to, distribution=distribution, name=name)
