"""The table from ATen's operators to ours, keyed by operator and overload.

A handler takes a node of the exported graph and the builder of our graph, and gives the values of the node's results:

    @aten_operator("relu")
    def relu(node: AtenNode, b: Builder) -> Value:
        return b.add("relu", [node.value("self")])

A node remembers which of its arguments were read. An argument that nobody read, and that is not what the operator takes by default,
is refused: it would be ignored.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from tensorsmith.errors import InternalError, UserError
from tensorsmith.frontends.common.values import as_type, scalar_of
from tensorsmith.frontends.own import Own, of_torch
from tensorsmith.frontends.torch.types import check_tensor, type_of
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.show.line import typed

#: each registers its handlers when it is imported
_MODULES = (
    "elementwise", "arithmetic", "logic", "creation", "movement", "indexing", "reduction", "matrix", "convolution", "pooling",
    "normalisation", "resize", "attention", "recurrent",
)  # fmt: skip

#: where a tensor lies, and in which order its elements do, means nothing to our graph; that it is on the CPU is checked everywhere
_PLACEMENT = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "copy")


@dataclass(frozen=True)
class Refused:
    """Stands for a value that our graph cannot have: one on another device, of another type, of a size that depends on data."""

    why: str


Results = Value | Sequence[Value]
Known = Mapping[fx.Node, Value | Refused | Sequence[Value | Refused]]  # what became of the nodes so far


class AtenNode:
    """A call of an ATen operator. `values` has our values for the nodes before it: one, or a sequence of a node's several."""

    def __init__(self, node: fx.Node, values: Known, builder: Builder) -> None:
        self._node, self._values, self._builder = node, values, builder
        schema = node.target._schema.arguments
        self._defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
        self._given: dict[str, Any] = {a.name: value for a, value in zip(schema, node.args)} | dict(node.kwargs)
        self._read: set[str] = set()
        self.results = [result_type(v, self) for v in as_list(node.meta["val"])]  # shape and type of each, as PyTorch has them

    def __str__(self) -> str:
        return f"{operator_name(self._node.target)} {self._node.name}"

    def parameters(self) -> list[tuple[str, str]]:
        """The names of all that the operator takes, and their types as its schema writes them."""
        return [(a.name, str(a.type)) for a in self._node.target._schema.arguments]

    @property
    def gives_several(self) -> bool:
        """Whether it gives a list or a tuple, be it of one."""
        return isinstance(self._node.meta["val"], list | tuple)

    def _argument(self, name: str) -> Any:
        self._read.add(name)
        if name in self._given:
            return self._given[name]
        if name in self._defaults:
            return self._defaults[name]
        raise UserError(f"{self}: the argument {name} is missing")

    # Tensors.

    def value(self, name: str) -> Value:
        """An argument that is a tensor."""
        found = self.optional(name)
        if found is None:
            raise UserError(f"{self}: the argument {name} is missing")
        return found

    def optional(self, name: str) -> Value | None:
        """An argument that is a tensor, or None where there is none."""
        given = self._argument(name)
        return None if given is None else self._value_of(given, name)

    def values(self, name: str) -> list[Value]:
        """An argument that is a list of tensors."""
        return [self._value_of(given, name) for given in self._argument(name)]

    def optional_values(self, name: str) -> list[Value | None]:
        """As `values`, with None where the list has no tensor."""
        return [None if given is None else self._value_of(given, name) for given in self._argument(name)]

    def _value_of(self, given: Any, name: str) -> Value:
        found = self._values.get(given) if isinstance(given, fx.Node) else None
        if isinstance(found, Refused):
            raise UserError(f"{self}: {found.why}")
        if not isinstance(found, Value):
            raise UserError(f"{self}: {name} is {given!r}, which is no tensor")
        return found

    def operand(self, name: str, dtype: str) -> Value:
        """An argument that is a tensor or a number, as a value of that type."""
        given = self._argument(name)
        if isinstance(given, fx.Node):
            return as_type(self._builder, self._value_of(given, name), dtype)
        return scalar_of(self._builder, self._checked_number(given, name), dtype)

    def common_type(self, first: str, second: str) -> str:
        """The type that PyTorch compares in, or computes in, where two arguments meet, tensors or numbers."""
        return type_of(torch.result_type(self._specimen(first), self._specimen(second)), self)

    def _specimen(self, name: str) -> Any:
        """Something of an argument's type and category: a number, a tensor with no dimensions, one with some."""
        given = self._argument(name)
        if not isinstance(given, fx.Node):
            return self._checked_number(given, name)
        tensor = given.meta["val"]
        return torch.empty((0,) if tensor.dim() else (), dtype=tensor.dtype)

    def is_tensor(self, name: str) -> bool:
        """Whether an argument is a tensor, and no number."""
        return isinstance(self._argument(name), fx.Node)

    def strides(self, name: str) -> tuple[int, ...]:
        """The strides that PyTorch's own tensor has."""
        return tuple(self._argument(name).meta["val"].stride())

    # Numbers and words.

    def plain(self, name: str) -> Any:
        """An argument that holds no tensor: a number, a word, None, a list of numbers."""
        given = self._argument(name)
        if isinstance(given, fx.Node | torch.SymInt | torch.SymFloat | torch.SymBool):
            raise UserError(f"{self}: {name} is computed from data; it must be known when the model is compiled")
        return given

    def number(self, name: str) -> int | float | bool:
        return self._checked_number(self.plain(name), name)

    def _checked_number(self, given: Any, name: str) -> int | float | bool:
        if not isinstance(given, bool | int | float):
            raise UserError(f"{self}: {name} is {given!r}, which is no number")
        return given

    def integer(self, name: str) -> int:
        return int(self.number(name))

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """A list of whole numbers; one of them stands for `count` alike."""
        given = self.plain(name)
        found = (given,) if isinstance(given, int) else tuple(given)
        if not all(isinstance(n, int) for n in found):
            raise UserError(f"{self}: {name} is {list(found)}; these must be whole numbers that are known")
        if count is not None and len(found) == 1:
            found = found * count
        if count is not None and len(found) != count:
            raise UserError(f"{self}: {name} is {list(found)}; expected {count} numbers")
        return found

    def given(self, name: str) -> bool:
        """Whether an argument is there, and is not None."""
        return self._given.get(name, self._defaults.get(name)) is not None

    def ignore(self, *names: str) -> None:
        """Says that arguments have no meaning here."""
        self._read.update(names)

    # Results.

    @property
    def result(self) -> tuple[tuple[int, ...], str]:
        """Shape and type of the one result, as PyTorch has them."""
        (found,) = self.results
        return found

    def uses(self, n: int) -> bool:
        """Whether anybody reads result n of several."""
        return any(user.target is not operator.getitem or user.args[1] == n for user in self._node.users)

    def check(self, results: Sequence[Value]) -> None:
        """Raises `UserError` where an argument was not read, `InternalError` where the results are not what PyTorch says."""
        for name, value in self._given.items():
            if name not in self._read and name not in _PLACEMENT and value is not None and value != self._defaults.get(name):
                raise UserError(f"{self}: the argument {name}={value!r} is not supported")
        for n, value in enumerate(results):
            if self.uses(n) or len(self.results) == 1:
                if (value.shape, value.dtype) != self.results[n]:
                    shape, dtype = self.results[n]
                    raise InternalError(f"{self}: result {n} is {value}; PyTorch says {dtype}{list(shape)}")


def as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, tuple | list) else [given]


def result_type(found: Any, what: object) -> tuple[tuple[int, ...], str]:
    """Shape and type of what a node gives, by PyTorch's own notes. Raises `UserError` where our graph cannot have it."""
    if not isinstance(found, torch.Tensor):
        raise UserError(f"{what} gives a {type(found).__name__} that depends on data, not a tensor")
    if any(not isinstance(n, int) for n in found.shape):
        raise UserError(f"{what} gives a tensor whose shape {list(found.shape)} depends on data")
    return tuple(found.shape), check_tensor(found, what)


Handler = Callable[[AtenNode, Builder], Results]

_TABLE: dict[str, Handler] = {}


def aten_operator(*names: str) -> Callable[[Handler], Handler]:
    """Registers the decorated handler for operators: "relu" is `aten.relu.default`, "add.Tensor" `aten.add.Tensor`."""

    def register(handler: Handler) -> Handler:
        for name in names:
            key = name if "." in name else f"{name}.default"
            if key in _TABLE:
                raise InternalError(f"two handlers for aten.{key}")
            _TABLE[key] = handler
        return handler

    return register


@functools.cache
def table() -> Mapping[str, Handler]:
    """The handlers by operator and overload, as in "add.Tensor"."""
    for module in _MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return _TABLE


def operator_name(target: Any) -> str:
    """What an operator is called in messages and in the table: "add.Tensor" of ATen, "mylib.foo.default" of another library."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target).removeprefix("aten.")
    return str(getattr(target, "__name__", target))


def find_handler(target: Any) -> Handler | None:
    """The handler of an operator; None where there is none."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    own = of_torch(str(target))
    return table().get(operator_name(target)) if own is None else _handler(own)


#: types of arguments that are tensors, as a schema writes them
_TENSORS = ("Tensor", "Optional[Tensor]")
_LISTS = ("List[Tensor]",)


def _handler(own: Own) -> Handler:
    """A handler that goes by a definition of the user's."""

    def handler(node: AtenNode, b: Builder) -> Results:
        tensors: list[Value | None] = []
        attributes: dict[str, Any] = {}
        for name, kind in node.parameters():
            if kind in _TENSORS:
                tensors.append(node.optional(name))
            elif kind in _LISTS:
                tensors += node.values(name)
            elif name in own.attributes:
                attributes[name] = node.plain(name)
        made = own.add(b, tensors, attributes, node)
        wrong = len(made) != len(node.results)
        for value, (shape, dtype) in zip(made, node.results):
            if (value.shape, value.dtype) != (shape, dtype):
                wrong = True
        if wrong:
            ours, theirs = (
                ", ".join(typed(d, s) for s, d in found) for found in ([(v.shape, v.dtype) for v in made], node.results)
            )
            raise UserError(f"{node}: the definition of {own.title} gives {ours}; PyTorch says {theirs}")
        return made if node.gives_several else made[0]

    return handler
