"""The operators of graphs: each is a definition in `lang`, found by its name.

An operator is a function of tensors and attributes that gives a tensor, or several:

    @operator("leaky_relu", Kind.ELEMENTWISE)
    def leaky_relu(x: Tensor, *, slope: float = 0.01, name: str) -> Tensor: ...

Its shape and type are those of the tensor it gives, its value is what `lang.evaluate` makes of it, and its code is generated from
it. So an operator is written once. `Kind` says how it may be fused with its neighbours, in the manner of Relay.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tensorsmith.errors import InternalError
from tensorsmith.graph.graph import Array, Attribute, Node, Value
from tensorsmith.lang import evaluate as reference
from tensorsmith.lang.define import Tensor, placeholder, workload


class Kind(IntEnum):
    """How a node's elements come about; what may be fused grows from the last to the first."""

    ELEMENTWISE = 0  # element i of the result from element i of each input, broadcasting as NumPy does
    INJECTIVE = 1  # each element from a few elements found by index arithmetic: transpose, slice, concat, pad, gather
    REDUCTION = 2  # sums, pooling, softmax, normalisations
    COMPLEX = 3  # sums of products with reuse: convolutions, matrix products
    OPAQUE = 4  # never fused


@dataclass(frozen=True)
class Operator:
    """A named operator: `define(*tensors, name=..., **attributes)` gives its tensor, or a tuple of them."""

    name: str
    kind: Kind
    define: Callable[..., Tensor | tuple[Tensor, ...]]


_TABLE: dict[str, Operator] = {}
_MODULES = (
    "elementwise", "movement", "indexing", "reduction", "complex", "window", "normalisation", "resample", "recurrent", "quantised",
    "attention", "bits", "random",
)  # fmt: skip  # each registers its operators when it is imported


def operator(
    name: str, kind: Kind
) -> Callable[[Callable[..., Tensor | tuple[Tensor, ...]]], Callable[..., Tensor | tuple[Tensor, ...]]]:
    """Registers the decorated function under a name."""

    def register(define: Callable[..., Tensor | tuple[Tensor, ...]]) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        if name in _TABLE:
            raise InternalError(f"two operators are called {name!r}")
        _TABLE[name] = Operator(name, kind, define)
        return define

    return register


@functools.cache
def table() -> Mapping[str, Operator]:
    """All operators by name."""
    for module in _MODULES:
        importlib.import_module(f"{__name__}.{module}")
    return _TABLE


def find(name: str) -> Operator:
    """The operator of that name."""
    if name not in table():
        raise InternalError(f"there is no graph operator {name!r}")
    return table()[name]


def define(name: str, tensors: Sequence[Tensor], attributes: Mapping[str, Attribute], result: str = "out") -> tuple[Tensor, ...]:
    """The tensors an operator gives, defined on `tensors`; stages are named after `result`."""
    made = find(name).define(*tensors, name=result, **attributes)
    return made if isinstance(made, tuple) else (made,)


def infer(name: str, inputs: Sequence[Value], attributes: Mapping[str, Attribute]) -> list[tuple[tuple[int, ...], str]]:
    """Shape and type of each result. Raises `UserError` where the inputs do not fit the operator."""
    tensors = [placeholder(v.shape, v.dtype, name=f"in{n}") for n, v in enumerate(inputs)]
    return [(t.shape, t.dtype) for t in define(name, tensors, attributes)]


def evaluate(name: str, arrays: Sequence[Array], attributes: Mapping[str, Attribute]) -> tuple[Array, ...]:
    """The value of an operator, by the reference evaluator."""
    tensors = [placeholder(a.shape, a.dtype, name=f"in{n}") for n, a in enumerate(arrays)]
    made = define(name, tensors, attributes)
    computed = {t.name: t for t in made if t.stage is not None}  # an operator may give back its input as it is
    given = {t.name: a for t, a in zip(tensors, arrays)}
    results: Mapping[str, Array] = reference.evaluate(workload([*tensors, *computed.values()]), given) if computed else {}
    return tuple(results[t.name] if t.name in results else given[t.name] for t in made)


def kind(node: Node) -> Kind:
    """How a node may be fused."""
    return find(node.operator).kind
