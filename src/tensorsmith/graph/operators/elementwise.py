"""Maps over elements, broadcasting as NumPy does."""

from __future__ import annotations

from collections.abc import Callable

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import elementwise as ops

_UNARY: dict[str, Callable[..., Tensor]] = {
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
    "exp": ops.exp,
    "erf": ops.erf,
}
_BINARY: dict[str, Callable[..., Tensor]] = {
    "add": ops.add,
    "subtract": ops.subtract,
    "multiply": ops.multiply,
    "divide": ops.divide,
}

for _name, _function in {**_UNARY, **_BINARY}.items():
    operator(_name, Kind.ELEMENTWISE)(_function)
