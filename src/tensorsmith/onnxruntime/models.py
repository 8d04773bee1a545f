"""Part of a graph as a model of ours: fixed shapes, or with open dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorProto, helper

from tensorsmith.frontends.onnx.importer import load_or_open
from tensorsmith.frontends.onnx.read import TYPES
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.onnxruntime.reading import GraphRead, Type


@dataclass(frozen=True)
class Piece:
    """Nodes of a graph, with what they read from outside and what others read of them."""

    proto: ModelProto  # its initializers have no data
    weights: Mapping[str, np.ndarray]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    open: tuple[str, ...]  # the names of open dimensions


def piece(graph: GraphRead, chosen: Iterable[int], name: str) -> Piece:
    """Those nodes, by their numbers. Every value that they read must have a type of ours and a known rank: see `typed`."""
    numbers = sorted(chosen)
    nodes = [graph.nodes[n].proto for n in numbers]
    own = {name for node in nodes for name in node.output if name}
    read = dict.fromkeys(name for node in nodes for name in node.input if name and name not in own)
    others = {name for n, node in enumerate(graph.nodes) if n not in set(numbers) for name in node.proto.input}
    outputs = [name for node in nodes for name in node.output if name and (name in others or name in graph.outputs)]
    inputs = [name for name in read if name not in graph.constants]
    symbols = _Symbols(inputs, [d for name in inputs for d in graph.types[name].dims or () if isinstance(d, str)])
    values = []
    for given in inputs:
        found = graph.types[given]
        assert found.dims is not None
        values.append(helper.make_tensor_value_info(given, found.element, symbols.dims(given, found.dims)))
    constants = {given: graph.constants[given] for given in read if given in graph.constants}
    initializers = [TensorProto(name=n, data_type=kind, dims=array.shape) for n, (kind, array) in constants.items()]
    made = helper.make_graph(nodes, name, values, [helper.make_empty_tensor_value_info(n) for n in outputs], initializers)
    versions = [helper.make_opsetid(domain, version) for domain, version in graph.versions.items()]
    proto = helper.make_model(made, opset_imports=versions)
    return Piece(proto, {n: array for n, (_, array) in constants.items()}, tuple(inputs), tuple(outputs), tuple(symbols.names))


def typed(found: Type | None) -> bool:
    """Whether a value of that type can go into a piece."""
    return found is not None and found.dims is not None and found.element in TYPES


def model(part: Piece, *, copied: bool = True) -> Model | OpenModel:
    """The model of a piece. Its weights are `copied`, unless it does not outlive those of ONNX Runtime."""
    weights = {name: array.copy() if copied else array for name, array in part.weights.items()}
    found = load_or_open(part.proto, dict.fromkeys(part.open), given=weights)
    return Model(found) if isinstance(found, Graph) else found


class _Symbols:
    """Names for open dimensions: those of the graph, unless an input is called so; of its own where there is none."""

    def __init__(self, inputs: Sequence[str], known: Sequence[str]) -> None:
        self.inputs, self.known = set(inputs), set(known)
        self.names: dict[str, None] = {}

    def dims(self, owner: str, dims: Sequence[int | str | None]) -> list[int | str]:
        found: list[int | str] = []
        for n, d in enumerate(dims):
            if not isinstance(d, int):
                taken = self.inputs if d else self.inputs | self.known
                d = d or f"{owner}_{n}"
                while d in taken or not d.strip("?-"):
                    d += "_size"
                self.names[d] = None
            found.append(d)
        return found


def sizes(part: Piece, size: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs where every open dimension has that size."""
    found = {}
    for value in part.proto.graph.input:
        dims = value.type.tensor_type.shape.dim
        found[value.name] = tuple(size if d.WhichOneof("value") == "dim_param" else d.dim_value for d in dims)
    return found
