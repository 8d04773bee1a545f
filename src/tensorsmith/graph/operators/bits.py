"""The bits of integers."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.expr import binary
from tensorsmith.lang.expr import shift as moved
from tensorsmith.ops.elementwise import apply


def _registered(name: str, op: str) -> None:
    @operator(name, Kind.ELEMENTWISE)
    def define_it(a: Tensor, b: Tensor, *, name: str) -> Tensor:
        return apply(lambda x, y: binary(op, x, y), a, b, name=name)


_registered("bitwise_and", "bitand")
_registered("bitwise_or", "bitor")
_registered("bitwise_xor", "bitxor")


@operator("bitwise_not", Kind.ELEMENTWISE)
def bitwise_not(x: Tensor, *, name: str) -> Tensor:
    return apply(lambda e: ~e, x, name=name)


@operator("shift", Kind.ELEMENTWISE)
def shift(x: Tensor, by: Tensor, *, left: bool, name: str) -> Tensor:
    """The bits of x moved by some places; what leaves is lost. By less than 0, or by all the bits, only the sign is left."""
    return apply(lambda e, count: moved(e, count, left=left), x, by, name=name)
