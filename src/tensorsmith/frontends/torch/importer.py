"""From a graph of ATen operators to ours, node by node, all shapes fixed."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from tensorsmith.errors import TensorsmithError, UserError
from tensorsmith.frontends.common.unsupported import UnsupportedOperators
from tensorsmith.frontends.common.values import transposed
from tensorsmith.frontends.torch.table import AtenNode, Refused, as_list, find_handler, operator_name, result_type
from tensorsmith.frontends.torch.types import Order, check_tensor, copied, inverse, memory_order
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Graph, Value

#: what a handler raises where arguments are not what it expects
_SYMPTOMS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class UnsupportedNodes(UnsupportedOperators):
    """A graph of ATen operators has some that our graph cannot have: `reasons` says why, for each node."""

    def __init__(self, model: str, reasons: Mapping[fx.Node, str]) -> None:
        self.reasons = dict(reasons)
        super().__init__(model, Counter(map(called, reasons)))
        known = list(dict.fromkeys(why for node, why in reasons.items() if find_handler(node.target) is not None))
        if known:
            more = f" (and {len(known) - 1} more)" if len(known) > 1 else ""
            self.args = (f"{self.args[0]}; {known[0]}{more}",)


@dataclass(frozen=True)
class Imported:
    """A graph of ours, and how it hangs together with the one it came from.

    `inputs` are the names of the placeholders that it takes, in order. `results` has for each output of the other graph the number
    of ours, or in a tuple of one what it is by itself: None, a number. `orders_in` and `orders_out` are the orders in which the
    dimensions of our inputs and outputs lie in memory, where that is not their own order: channels last, say. Ours have them so.
    """

    graph: Graph
    inputs: tuple[str, ...]
    results: tuple[int | tuple[Any], ...]
    orders_in: tuple[Order | None, ...]
    orders_out: tuple[Order | None, ...]


def import_graph(graph: fx.Graph, constants: Mapping[str, torch.Tensor], name: str, as_they_lie: bool = False) -> Imported:
    """The graph with the placeholders named in `constants` as constants. Raises `UnsupportedNodes` with all that it cannot have.
    Inputs and outputs are in the order of their dimensions, or with `as_they_lie` in the order in which PyTorch has them."""
    return _Importer(name, as_they_lie).run(graph, constants)


class _Importer:
    def __init__(self, name: str, as_they_lie: bool) -> None:
        self.name, self.as_they_lie = name, as_they_lie
        self.orders_in: list[Order | None] = []
        self.orders_out: list[Order | None] = []
        self.builder = Builder(name)
        self.values: dict[fx.Node, Any] = {}
        self.reasons: dict[fx.Node, str] = {}

    def run(self, graph: fx.Graph, constants: Mapping[str, torch.Tensor]) -> Imported:
        inputs: list[str] = []
        wanted = needed(graph)
        for node in graph.nodes:
            if node.op == "placeholder" and node in wanted:
                self.values[node] = self.placeholder(node, constants)
                if node.name not in constants and isinstance(self.values[node], Value):
                    inputs.append(node.name)
            elif node.op == "call_function" and node in wanted:
                self.call(node)
        (output,) = (node for node in graph.nodes if node.op == "output")
        results = self.outputs(as_list(output.args[0]))
        if self.reasons:
            raise UnsupportedNodes(self.name, self.reasons)
        return Imported(self.builder.graph(), tuple(inputs), results, tuple(self.orders_in), tuple(self.orders_out))

    def placeholder(self, node: fx.Node, constants: Mapping[str, torch.Tensor]) -> Value | Refused:
        try:
            if node.name in constants:
                check_tensor(constants[node.name], node.name)
                return self.builder.constant(copied(constants[node.name]), node.name)
            shape, dtype = result_type(node.meta["val"], node.name)
            order = memory_order(node.meta["val"]) if self.as_they_lie else None
            self.orders_in.append(order)
            if order is None:
                return self.builder.input(node.name, shape, dtype)
            held = self.builder.input(node.name, tuple(shape[d] for d in order), dtype)
            return transposed(self.builder, held, inverse(order))
        except UserError as problem:
            return Refused(str(problem))

    def call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            parent, number = node.args
            several = self.values[parent]
            if isinstance(several, list) and isinstance(number, int) and number < len(several):
                self.values[node] = several[number]
            else:
                self.refuse(node, f"result {number} of {parent} is not supported")
            return
        handler = find_handler(node.target)
        if handler is None:
            self.refuse(node, f"there is no handler for {called(node)}")
            return
        self.builder.origin = node.name
        try:
            made = AtenNode(node, self.values, self.builder)
            given = handler(made, self.builder)
            results = [given] if isinstance(given, Value) else list(given)
            made.check(results)
        except UserError as problem:
            self.refuse(node, str(problem))
        except TensorsmithError:
            raise
        except _SYMPTOMS as problem:
            self.refuse(node, f"{operator_name(node.target)} {node.name}: {type(problem).__name__}: {problem}")
        else:
            self.values[node] = results[0] if isinstance(given, Value) else results

    def refuse(self, node: fx.Node, why: str) -> None:
        """Notes a node that our graph cannot have. The nodes after it are looked at as if its results were inputs."""
        self.reasons[node] = why
        found = node.meta.get("val")
        stand_ins = [self.stand_in(node, v) for v in as_list(found)]
        self.values[node] = stand_ins if isinstance(found, tuple | list) else stand_ins[0]

    def stand_in(self, node: fx.Node, found: Any) -> Value | Refused:
        try:
            return self.builder.input(node.name, *result_type(found, node.name))
        except UserError as problem:
            return Refused(str(problem))

    def outputs(self, given: list[Any]) -> tuple[int | tuple[Any], ...]:
        """Lets values leave the graph, each once; what reaches the outside that we cannot give is a reason, too."""
        numbers: dict[fx.Node, int] = {}
        results: list[int | tuple[Any]] = []
        for item in given:
            if not isinstance(item, fx.Node):
                results.append((item,))
                continue
            value = self.values.get(item)
            if not isinstance(value, Value):
                self.reasons.setdefault(item, value.why if isinstance(value, Refused) else f"{item.name} is no tensor")
                continue
            if item not in numbers:
                numbers[item] = len(numbers)
                order = memory_order(item.meta["val"]) if self.as_they_lie else None
                self.orders_out.append(order)
                held = value if order is None else transposed(self.builder, value, order)
                self.builder.output(f"output_{numbers[item]}", held)
            results.append(numbers[item])
        return tuple(results)


def called(node: fx.Node) -> str:
    """The operator that a node calls; one with effects is called by another, in an order that tokens keep."""
    target = node.args[1] if getattr(node.target, "__name__", "") == "with_effects" else node.target
    return operator_name(target)


def needed(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that outputs are computed from: not the assertions, nor what is computed for them alone."""
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in found:
            found.update(node.all_input_nodes)
    return found
