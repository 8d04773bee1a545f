"""The bits of integers."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor, select
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Expr, binary, wrap
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
    ones = -1 if dtype(x.dtype).kind == "i" else 255
    return apply(lambda e: binary("bitxor", e, wrap(ones, e.dtype)), x, name=name)


@operator("shift", Kind.ELEMENTWISE)
def shift(x: Tensor, by: Tensor, *, left: bool, unsigned: bool = False, name: str) -> Tensor:
    """The bits of x moved by some places; what leaves is lost. By less than 0, or by all the bits, only the sign is left.

    `unsigned` takes the numbers of a signed type for unsigned ones: to the right, zeros come in whatever the sign.
    """
    bits = dtype(x.dtype).numpy.itemsize * 8
    signed = dtype(x.dtype).kind == "i"

    def f(e: Expr, count: Expr) -> Expr:
        inside = (count >= 0) & (count < bits) if signed else count < bits
        places = select(inside, count, 0)
        if left:
            return select(inside, binary("shl", e, places), 0)
        moved = binary("shr", e, places)
        if not signed:
            return select(inside, moved, 0)
        if unsigned:
            largest = wrap((1 << bits - 1) - 1, x.dtype)  # its sign bit is 0, so that one place less leaves the right zeros
            cleared = binary("bitand", moved, binary("shr", largest, select(places > 0, places - 1, 0)))
            return select(inside, select(places > 0, cleared, e), 0)
        return select(inside, moved, select(e < 0, wrap(-1, x.dtype), 0))

    return apply(f, x, by, name=name)
