"""From an ONNX model to a graph, node by node, all shapes fixed.

Names of the file are looked up in scopes: a branch of an If sees the values around it, a function only its arguments.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from tensorsmith.errors import Parameter, Part, UserError, whole_number
from tensorsmith.frontends.common.unsupported import UnsupportedOperators
from tensorsmith.frontends.onnx import functions, names
from tensorsmith.frontends.onnx.cut import before, cut, whole
from tensorsmith.frontends.onnx.draws import Draws
from tensorsmith.frontends.onnx.inputs import Bindings, bind, plain_shapes
from tensorsmith.frontends.onnx.open_inputs import OpenBindings, opened
from tensorsmith.frontends.onnx.read import UnsupportedType, malformed, numbers, read_attribute, read_model, read_tensor
from tensorsmith.frontends.onnx.table import STANDARD_DOMAINS, NeedsConstant, OnnxNode, Subgraph, find_handler
from tensorsmith.frontends.onnx.unread import refuse_unread
from tensorsmith.frontends.own import of_onnx
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Graph, Value
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.runtime.arguments import CALL_NUMBER
from tensorsmith.show.line import many

_DEEPEST = 32  # functions that call functions, and branches in branches


_NO_NAMES = frozenset({"", "main_graph", "main", "graph", "torch_jit", "torch-jit-export", "tf2onnx"})  # which say nothing


def load_onnx(
    source: str | os.PathLike[str] | bytes | ModelProto,
    shapes: Bindings | None = None,
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
) -> Graph:
    """The graph of an ONNX model, given by its path, its bytes or as a `ModelProto`.

    `shapes` gives inputs their shapes and symbolic dimensions their sizes: `{"x": (1, 3, 224, 224), "batch": 1}`. Inputs named in
    `constants` become constants of that value. `outputs` are the tensors to compute, the model's own by default.
    """
    model, folder = read_model(source)
    with malformed("the model is malformed"):
        importer = _Importer(model, folder, _name(model, source), outputs=outputs, seed=seed)
        return importer.run(plain_shapes(shapes or {}, importer.inputs()), constants or {})


def load_or_open(
    source: str | os.PathLike[str] | bytes | ModelProto,
    shapes: OpenBindings,
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
    given: Mapping[str, Array] | None = None,
) -> Graph | OpenModel:
    """As `load_onnx`; where `shapes` leave some dimensions open, a model of any sizes. Initializers that are `given` are not read
    from the file; the arrays are kept."""
    model, folder = read_model(source)
    weights = dict(given or {})  # read once: all sizes share them
    with malformed("the model is malformed"):
        importer = _Importer(model, folder, _name(model, source), weights, outputs, seed)
        shapes, arrays = plain_shapes(shapes, importer.inputs()), importer.known(constants or {})
        found = opened(importer.inputs(), shapes, {name: array.shape for name, array in arrays.items()})
        if found is None:
            return importer.run(cast(Bindings, shapes), arrays)
        importer.check_whole(_Scope(_versions(model.opset_import)))

    def make(sizes: Mapping[str, int]) -> Model:
        with malformed("the model is malformed"):
            return Model(_Importer(model, folder, importer.name, weights, outputs, seed).run(found.at(sizes), arrays))

    return OpenModel(importer.name, found.inputs, found.sizes, make, draws=seed is not None)


def not_imported(
    model: ModelProto,
    given: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
    between: Mapping[str, tuple[str, tuple[int, ...]]],
) -> dict[int, str]:
    """The nodes of a model that cannot be imported, by their number, each with the reason; a node that reads something of unknown
    type or shape is one of them. What they give is taken as it is `between` nodes: type and shape by name, as far as known."""
    importer = _Importer(model, None, _name(model, b""), dict(given))
    scope, builder = _Scope(_versions(model.opset_import)), importer.builder
    inputs = importer.inputs()
    for name, (shape, dtype) in bind(inputs, shapes, {}).items():
        scope.values[name] = builder.input(name, shape, dtype)
    importer.initializers(model.graph, scope)
    failed: dict[int, str] = {}
    for n, node in enumerate(model.graph.node):
        try:
            with malformed(node.op_type):
                importer.check_supported([node], scope)
                importer.node(node, scope)
        except UserError as problem:
            failed[n] = str(problem)
            for name in node.output:
                scope.values.pop(name, None)
                if name in between:
                    dtype, shape = between[name]
                    scope.values[name] = builder.input(name, shape, dtype)
    return failed


def _name(model: ModelProto, source: str | os.PathLike[str] | bytes | ModelProto) -> str:
    """The graph's, or the file's where an exporter calls every graph so."""
    own = model.graph.name
    if isinstance(source, (str, os.PathLike)) and own in _NO_NAMES:
        return Path(source).stem or "model"
    return own or "model"


@dataclass
class _Scope:
    """The names known in a graph or a function. A branch of an If has the scope around it as `outer`."""

    versions: Mapping[str, int]  # of the operator sets, by domain
    values: dict[str, Value] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # what nodes do not give, with the reason
    outer: _Scope | None = None
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)  # of the function's call
    depth: int = 0

    def find(self, name: str, what: str) -> Value:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.refused:
                raise UserError(scope.refused[name])
            scope = scope.outer
        raise UserError(f"{what} reads {name!r}, which neither an input nor a node before it gives")


_Key = tuple[str, str, str]  # of a function: domain, name, overload


class _Importer:
    def __init__(
        self,
        model: ModelProto,
        folder: Path | None,
        name: str,
        weights: dict[str, Array] | None = None,
        outputs: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> None:
        """`weights` are the model's own initializers as far as they were read before; what is read now is added."""
        self.model, self.folder, self.name = model, folder, name
        self.is_cut = outputs is not None
        self.piece = whole(model.graph) if outputs is None else cut(model.graph, outputs)
        self.weights = {} if weights is None else weights
        self.builder = Builder(self.name)
        self.draws = None if seed is None else Draws(_checked_seed(seed), self.builder)
        self.functions: dict[_Key, FunctionProto] = {}
        for f in model.functions:
            key = (f.domain, f.name, f.overload)
            if key in self.functions:
                raise UserError(f"{self.name} has two functions called {'.'.join(filter(None, key))}")
            names.check_function(f)
            self.functions[key] = f

    def inputs(self) -> list[ValueInfoProto]:
        """What the model takes; of a part of it, what that reads."""
        given = {t.name for t in self.model.graph.initializer}
        inputs = [v for v in self.model.graph.input if v.name not in given]  # older files repeat the initializers there
        return [v for v in inputs if v.name in self.piece.read] if self.is_cut else inputs

    def known(self, constants: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays for inputs that become constants."""
        unknown = [name for name in constants if name not in {v.name for v in self.inputs()}]
        if unknown:
            raise UserError(f"{unknown[0]!r} is given as a constant, but the model has no such input")
        return {name: numbers(np.asarray(array), f"input {name}") for name, array in constants.items()}

    def run(self, shapes: Bindings, constants: Mapping[str, Array]) -> Graph:
        graph = self.model.graph
        names.check_graph(graph, self.name)
        if any(v.name == CALL_NUMBER for v in graph.input):
            raise UserError(f"{self.name} has an input {CALL_NUMBER!r}, a name that means something else here: rename it")
        inputs, arrays = self.inputs(), self.known(constants)
        types = bind(inputs, shapes, {name: array.shape for name, array in arrays.items()})
        scope = _Scope(_versions(self.model.opset_import))
        for v in inputs:
            if v.name not in arrays:
                scope.values[v.name] = self.builder.input(v.name, *types[v.name])
        for name, array in arrays.items():
            value = self.builder.constant(array, name)
            if value.dtype != types[name][1]:
                raise UserError(f"input {name} is {types[name][1]}; the constant given for it is {value.dtype}")
            scope.values[name] = value
        self.initializers(graph, scope, self.piece.read)
        self.check_whole(scope)
        for node in self.piece.nodes:
            self.top_node(node, scope)
        taken: Counter[str] = Counter()
        for name in self.piece.outputs:  # the same output may be listed twice
            self.builder.output(f"{name}_{taken[name]}" if taken[name] else name, scope.find(name, f"output {name!r}"))
            taken[name] += 1
        if not taken:
            raise UserError(f"{self.name} has no output")
        return self.builder.graph()

    def top_node(self, node: NodeProto, scope: _Scope) -> None:
        """Adds a node of the model's own graph. What is wrong in it, or in a graph inside it, says where to cut the model."""

        def advice() -> list[Part]:
            known = [name for name, value in scope.values.items() if self.builder.known(value) is not None]
            return before(self.model.graph, self.piece, lambda other: other is node, known)

        try:
            self.node(node, scope)
        except NeedsConstant as problem:
            raise problem.with_cut(advice()) from problem
        except UnsupportedOperators as problem:
            raise _advised(problem, advice()) from problem

    def initializers(self, graph: GraphProto, scope: _Scope, wanted: Container[str] | None = None) -> None:
        """The constants of a graph, or those of them that are wanted."""
        if any(wanted is None or s.values.name in wanted for s in graph.sparse_initializer):
            raise UserError(f"{graph.name or self.name} has sparse initializers, which are not supported")
        for tensor in graph.initializer:
            if wanted is not None and tensor.name not in wanted:
                continue
            known = self.weights if scope.outer is None else {}  # a graph inside a node may have the same names
            array = known.get(tensor.name)
            if array is None:
                array = known[tensor.name] = read_tensor(tensor, self.folder, "initializer")
            scope.values[tensor.name] = self.builder.constant(array, tensor.name)

    def nodes(self, nodes: Sequence[NodeProto], scope: _Scope) -> None:
        if scope.depth > _DEEPEST:
            raise UserError(f"{self.name}: functions and branches are nested more than {_DEEPEST} deep; does one call itself?")
        self.check_supported(nodes, scope)
        for node in nodes:
            self.node(node, scope)

    def check_whole(self, scope: _Scope) -> None:
        """All operators of the model's own graph without a handler, in one error."""
        try:
            self.check_supported(self.piece.nodes, scope)
        except UnsupportedOperators as problem:
            where = before(self.model.graph, self.piece, lambda node: not self.is_supported(node, scope))
            raise _advised(problem, where) from problem

    def check_supported(self, nodes: Iterable[NodeProto], scope: _Scope) -> None:
        """All operators without a handler, in one error."""
        missing: Counter[str] = Counter()
        for node in nodes:
            if not self.is_supported(node, scope):
                domain = "" if node.domain in STANDARD_DOMAINS else f"{node.domain}."
                missing[f"{domain}{node.op_type} (opset {self.version(node, scope)})"] += 1
        if missing:
            raise UnsupportedOperators(self.name, missing)

    def is_supported(self, node: NodeProto, scope: _Scope) -> bool:
        version = self.version(node, scope)
        return find_handler(node.op_type, version, node.domain) is not None or self.is_function(node, version)

    def is_function(self, node: NodeProto, version: int) -> bool:
        return _key(node) in self.functions or functions.has_body(node, version)

    def version(self, node: NodeProto, scope: _Scope) -> int:
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        if domain not in scope.versions and _key(node) not in self.functions:
            raise UserError(
                f"the model uses {node.op_type} of the operator set {domain or 'ai.onnx'}, but does not import that set"
            )
        return scope.versions.get(domain, 1)

    def node(self, node: NodeProto, scope: _Scope) -> None:
        version = self.version(node, scope)
        self.builder.origin = node.name or (node.output[0] if node.output else "")
        what = f"{node.op_type} {self.builder.origin}".rstrip()
        inputs = [scope.find(name, what) if name else None for name in node.input]
        node = functions.bound(node, scope.attributes)
        handler = find_handler(node.op_type, version, node.domain)
        function = self.functions.get(_key(node))
        if function is not None and of_onnx(node.domain, node.op_type) is None:
            functions.check_attributes(node, (*function.attribute, *(a.name for a in function.attribute_proto)))
            results = self.call(
                function, node, inputs, _Scope(_versions(function.opset_import) or scope.versions, depth=scope.depth)
            )
        elif handler is not None:
            attributes = self.attributes(node, scope, what)
            made = OnnxNode(
                node.op_type, self.builder.origin, version, inputs, len(node.output), attributes, node.input, self.builder,
                self.draws,
            )  # fmt: skip
            with _named(what):
                given = handler(made, self.builder)
                refuse_unread(made, "" if node.domain in STANDARD_DOMAINS else node.domain)
            results = [given] if isinstance(given, Value) else list(given)
        else:
            body = functions.body(node, version, [None if v is None else (v.dtype, v.shape) for v in inputs])
            versions = {
                **scope.versions,
                **_versions(body.opset_import),
            }  # some bodies leave out the standard set: it is the model's
            results = self.call(body, node, inputs, _Scope(versions, depth=scope.depth))
        for name, value in zip(node.output, results):
            if name:
                scope.values[name] = value
        few = f"{what} has {many(len(node.output), 'output')}; only {len(results)} can be read"  # exporters list more, for training
        scope.refused |= dict.fromkeys(node.output[len(results) :], few)

    def attributes(self, node: NodeProto, scope: _Scope, what: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for attribute in node.attribute:
            if attribute.name in found:
                raise UserError(f"{what}: the attribute {attribute.name!r} is given twice")
            value = read_attribute(attribute, self.folder, what)
            found[attribute.name] = self.subgraph(value, scope) if isinstance(value, GraphProto) else value
        return found

    def subgraph(self, graph: GraphProto, scope: _Scope) -> Subgraph:
        """A graph inside a node, added whenever it is built; its constants are there once, however often that is."""
        fixed = _Scope(scope.versions, outer=scope, attributes=scope.attributes, depth=scope.depth + 1)

        def build(inputs: Sequence[Value]) -> list[Value]:
            if len(inputs) != len(graph.input):
                raise UserError(
                    f"the graph {graph.name} inside a node takes {many(len(graph.input), 'input')}; it is given {len(inputs)}"
                )
            if not fixed.values:
                names.check_graph(graph, f"the graph {graph.name}")
                self.initializers(graph, fixed)
                self.nodes([n for n in graph.node if n.op_type == "Constant"], fixed)
            given = {v.name: value for v, value in zip(graph.input, inputs)}
            inner = _Scope(scope.versions, given, outer=fixed, attributes=scope.attributes, depth=scope.depth + 1)
            self.nodes([n for n in graph.node if n.op_type != "Constant"], inner)
            return _results(graph, inner)

        return Subgraph(graph.name, build)

    def call(self, function: FunctionProto, node: NodeProto, inputs: Sequence[Value | None], scope: _Scope) -> list[Value]:
        """Adds a function's nodes in place of its call; the scope says the versions of the operator sets they are of."""
        if len(inputs) > len(function.input):
            raise UserError(f"{node.op_type} takes {many(len(function.input), 'input')}; {self.builder.origin} gives {len(inputs)}")
        given = {a.name: a for a in node.attribute}
        defaults = {a.name: a for a in function.attribute_proto}
        inner = _Scope(scope.versions, attributes={**defaults, **given}, depth=scope.depth + 1)
        inner.values = {name: value for name, value in zip(function.input, inputs) if value is not None}
        left_out = set(function.input) - set(inner.values)
        nodes = [functions.without_inputs(n, left_out) for n in function.node]
        self.nodes(nodes, inner)
        return [inner.find(name, f"function {function.name}") for name in function.output[: len(node.output)]]


def _checked_seed(seed: int) -> int:
    number = whole_number(seed)
    if number is None or number < 0:
        raise UserError(Parameter("seed", repr(seed), of="load"), ": give a whole number, 0 or more")
    return number


def _advised(problem: UnsupportedOperators, where: Sequence[Part]) -> UnsupportedOperators:
    """The error with what helps: a model that ends before these operators, or a definition of one's own of each."""
    advice: list[Part] = ["; cut the model before them, ", *where] if where else []
    if any("." in kind for kind in problem.counts):  # not of the standard: someone knows what it means
        own = (
            "define the operator in the file by a function of its domain and name (a FunctionProto of standard operators), "
            "or here by ts.frontends.register"
        )
        advice += [f"{', or ' if advice else '; '}{own}"]
    return UnsupportedOperators(problem.model, problem.counts, advice)


def _key(node: NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload


def _results(graph: GraphProto, scope: _Scope) -> list[Value]:
    return [scope.find(v.name, f"output {v.name!r}") for v in graph.output]


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Says of every error inside which node it is about."""
    try:
        with malformed(f"{what} is malformed"):
            yield
    except UserError as problem:
        if type(problem) is not UserError or what in str(problem):
            raise
        raise UserError(f"{what}: {problem}") from problem


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    """The version of each operator set; sets that no node uses do no harm."""
    found: dict[str, int] = {}
    for o in imports:
        domain = "" if o.domain in STANDARD_DOMAINS else o.domain
        if found.setdefault(domain, o.version) != o.version:
            raise UserError(f"the operator set {domain or 'ai.onnx'} is imported in the versions {found[domain]} and {o.version}")
    return found


__all__ = ["UnsupportedOperators", "UnsupportedType", "load_onnx", "load_or_open"]
