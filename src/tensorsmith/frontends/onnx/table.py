"""The table from ONNX's operators to ours, keyed by operator and version.

A handler takes a node of the file and the builder of our graph, and gives the values of the node's outputs:

    @onnx_operator("Relu")
    def relu(node: OnnxNode, b: Builder) -> Value:
        return b.add("relu", [node.required(0)])

ONNX changes an operator by giving it a new version of the operator set; `since=13` registers a handler for the versions from 13
until the next one registered.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorsmith.errors import InternalError, Parameter, Part, UserError
from tensorsmith.frontends.onnx.draws import Draws
from tensorsmith.frontends.own import Own, of_onnx
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value

#: each registers its handlers when it is imported
_MODULES = (
    "elementwise", "logic", "bits", "movement", "indexing", "shape", "data_sized", "reduction", "control", "signal", "chance",
    "convolution", "pooling", "normalisation", "resize", "recurrent", "attention", "quantised", "matrix", "contrib",
)  # fmt: skip

#: the names under which the standard operators go
STANDARD_DOMAINS = ("", "ai.onnx")


class NeedsConstant(UserError):
    """An operator needs an input's value when the model is compiled, and that is only computed at run time.

    `sources` are the graph inputs it is computed from: giving them as constants helps. So does a model without the node: `cut` says
    how to get one.
    """

    def __init__(self, value: str, node: str, what: str, sources: Sequence[str] = (), cut: Sequence[Part] = ()) -> None:
        self.value, self.node, self.what, self.sources = value, node, what, tuple(sources)
        super().__init__(*self._message(), *self._advice(cut))

    def with_cut(self, cut: Sequence[Part]) -> NeedsConstant:
        """The same, with how to get a model without the node."""
        return type(self)(self.value, self.node, self.what, self.sources, cut)

    def _message(self) -> list[Part]:
        return [f"{self.node}: {self.what} ({self.value}) must be known when the model is compiled"]

    def _advice(self, cut: Sequence[Part]) -> list[Part]:
        found: list[Part] = []
        if self.sources:
            constants = Parameter("constants", entries=tuple((name, "array") for name in self.sources))
            found = [f"; it is computed from {', '.join(self.sources)}: give that as a constant, ", constants]
        return [*found, ", or cut the model before it, " if found else "; cut the model before it, ", *cut] if cut else found


class NeedsData(NeedsConstant):
    """As that; it is the data of the model that would have to be known, so no constant helps."""

    def _message(self) -> list[Part]:
        size = (
            f"the size of its result depends on {self.what} ({self.value}), and all sizes must be known when the model is compiled"
        )
        return [f"{self.node}: {size}"]

    def _advice(self, cut: Sequence[Part]) -> list[Part]:
        return ["; cut the model before it, ", *cut, ", and do the rest with its outputs"] if cut else []


@dataclass(frozen=True)
class Subgraph:
    """A graph inside a node (a branch of an If, the body of a Loop).

    `build(inputs)` adds it to the graph being built, with those values for its inputs, and gives its outputs.
    """

    name: str
    build: Callable[[Sequence[Value]], Sequence[Value]]


@dataclass(frozen=True)
class OnnxNode:
    """A node of an ONNX file, its inputs already values of the graph being built.

    Attributes are ints, floats, strings, tuples of those, NumPy arrays for tensors, and `Subgraph`s. The node remembers which
    attributes and inputs its handler read: what a file gives and nobody reads would be ignored, so the importer refuses it.
    """

    kind: str
    name: str
    version: int  # of the operator set
    _inputs: Sequence[Value | None]  # None: left out
    output_count: int
    _attributes: Mapping[str, Any] = field(default_factory=dict)
    _names: Sequence[str] = ()  # of the inputs, in the file
    builder: Builder = field(default_factory=Builder, repr=False)
    draws: Draws | None = field(default=None, repr=False)  # None: the model has no seed
    _read: set[str | int] = field(default_factory=set, repr=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def input_count(self) -> int:
        """How many inputs the file lists, with those left out in between."""
        return len(self._inputs)

    def optional(self, n: int) -> Value | None:
        """Input n, or None where it is left out."""
        self._read.add(n)
        return self._inputs[n] if n < len(self._inputs) else None

    def required(self, n: int) -> Value:
        """Input n."""
        value = self.optional(n)
        if value is None:
            raise UserError(f"{self}: input {n} is missing")
        return value

    def every(self) -> list[Value]:
        """All inputs; none may be left out."""
        return [self.required(n) for n in range(self.input_count)]

    def constant(self, n: int, what: str) -> Array:
        """The value of input n, which must be known when the model is compiled; `what` it is, for the error."""
        return self.known(self.required(n), what)

    def optional_constant(self, n: int, what: str) -> Array | None:
        """As `constant`, None where the input is left out."""
        value = self.optional(n)
        return None if value is None else self.known(value, what)

    def known(self, value: Value, what: str) -> Array:
        """The array of a value that must be known when the model is compiled."""
        return self._known(value, what, NeedsConstant)

    def data(self, n: int, what: str) -> Array:
        """As `constant`, of data that say how large the result is."""
        return self._known(self.required(n), what, NeedsData)

    def _known(self, value: Value, what: str, problem: type[NeedsConstant]) -> Array:
        array = self.builder.known(value)
        if array is None:
            name = next((name for name, given in zip(self._names, self._inputs) if given is value), value.name)
            raise problem(name, str(self), what, self.builder.sources(value))
        return array

    def has(self, name: str) -> bool:
        """Whether the file gives an attribute; it counts as read only when its value is taken."""
        return name in self._attributes

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        self._read.add(name)
        return self._attributes.get(name, default)

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        """An attribute that is one of a few words."""
        word = self.attribute(name, default)
        if word not in known:
            raise UserError(f"{self}: {name} is {word!r}; known are {', '.join(known)}")
        return str(word)

    def needed(self, name: str) -> Any:
        """An attribute that must be there."""
        if name not in self._attributes:
            raise UserError(f"{self}: the attribute {name!r} is missing")
        return self.attribute(name)

    def unread(self) -> tuple[dict[str, Any], list[int]]:
        """The attributes, with their values, and the inputs that the file gives and nobody read so far."""
        attributes = {name: value for name, value in self._attributes.items() if name not in self._read}
        return attributes, [n for n, value in enumerate(self._inputs) if value is not None and n not in self._read]


Handler = Callable[[OnnxNode, Builder], Value | Sequence[Value]]

_TABLE: dict[tuple[str, str], dict[int, Handler]] = {}


def onnx_operator(kind: str, since: int = 1, domain: str = "") -> Callable[[Handler], Handler]:
    """Registers the decorated handler for an operator, from a version of the operator set on."""

    def register(handler: Handler) -> Handler:
        versions = _TABLE.setdefault((domain, kind), {})
        if since in versions:
            raise InternalError(f"two handlers for {kind} since {since}")
        versions[since] = handler
        return handler

    return register


@functools.cache
def _loaded() -> dict[tuple[str, str], dict[int, Handler]]:
    for module in _MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return _TABLE


def table() -> Mapping[tuple[str, str], Mapping[int, Handler]]:
    """The handlers by domain and operator, then by the version each is for from on."""
    return _loaded()


def find_handler(kind: str, version: int, domain: str = "") -> Handler | None:
    """The handler of an operator at a version of its operator set; None where there is none."""
    own = of_onnx("" if domain in STANDARD_DOMAINS else domain, kind)
    if own is not None:
        return _handler(own)
    versions = _loaded().get(("" if domain in STANDARD_DOMAINS else domain, kind), {})
    fitting = [since for since in versions if since <= version]
    return versions[max(fitting)] if fitting else None


def _handler(own: Own) -> Handler:
    """A handler that goes by a definition of the user's."""

    def handler(node: OnnxNode, b: Builder) -> list[Value]:
        tensors = [node.optional(n) for n in range(node.input_count)]
        return own.add(b, tensors, {name: node.attribute(name) for name in own.attributes if node.has(name)}, node)

    return handler
