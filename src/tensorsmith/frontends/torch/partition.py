"""A graph of which we can run a part: the part runs in executables, the rest in PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from tensorsmith.errors import UserError
from tensorsmith.frontends.torch.export import is_view
from tensorsmith.frontends.torch.importer import Imported, import_graph, needed
from tensorsmith.frontends.torch.types import array_of, inverse, tensor_of
from tensorsmith.graph.graph import Graph
from tensorsmith.runtime.executable import Executable

Build = Callable[[Graph], Executable]

#: reads memory as it lies, which is not the same for tensors of ours
_BY_PLACE = ("as_strided",)


class Network:
    """Our executable of a graph, called with tensors."""

    def __init__(self, imported: Imported, executable: Executable) -> None:
        self._results = imported.results
        self._turned_in = [(n, order) for n, order in enumerate(imported.orders_in) if order is not None]
        self._turned_out = [(n, inverse(order)) for n, order in enumerate(imported.orders_out) if order is not None]
        self._executable = executable

    def __call__(self, tensors: list[torch.Tensor]) -> list[Any]:
        """`tensors` are for the inputs of the graph, in order; the outputs of the graph it came from."""
        for n, order in self._turned_in:
            tensors[n] = tensors[n].permute(order)
        given = self._executable(*[array_of(x) for x in tensors])
        results = [tensor_of(r) for r in (given if isinstance(given, tuple) else (given,))]
        for n, order in self._turned_out:
            results[n] = results[n].permute(order)
        return [r[0] if isinstance(r, tuple) else results[r] for r in self._results]


class _Part(torch.nn.Module):
    """A part that runs in an executable, in place of the subgraph it came from."""

    def __init__(self, network: Network, taken: list[int], single: bool) -> None:
        super().__init__()
        self._network, self._taken, self._single = network, taken, single

    def forward(self, *given: torch.Tensor) -> Any:
        results = self._network([given[n] for n in self._taken])
        return results[0] if self._single else tuple(results)


class _Ours(OperatorSupportBase):
    """Says of every node whether we run it."""

    def __init__(self, graph: fx.Graph, left: Collection[fx.Node]) -> None:
        self._needed, self._left = needed(graph), left

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        if node.op != "call_function" or node in self._left or node not in self._needed:
            return False
        return node.target is not operator.getitem or self.is_node_supported(submodules, node.args[0])


def partitioned(
    module: fx.GraphModule, left: Collection[fx.Node], constants: Mapping[str, torch.Tensor], name: str, build: Build
) -> fx.GraphModule:
    """The module with executables for all but the nodes in `left`. The module itself is changed."""
    if any(getattr(node.target, "__name__", "").split(".")[0] in _BY_PLACE for node in left):
        raise UserError(f"{name} reads tensors by their place in memory")
    partitioner = CapabilityBasedPartitioner(module, _Ours(module.graph, left), allows_single_node_partition=True)
    chosen = [p for p in partitioner.propose_partitions() if _computes(p)]
    before = set(dict(module.named_children()))
    fused = partitioner.fuse_partitions(chosen, prefix="tensorsmith_")
    for call in [n for n in fused.graph.nodes if n.op == "call_module" and n.target not in before]:
        _compile(fused, call, constants, name, build)
    fused.recompile()
    return fused


def _computes(partition: Partition) -> bool:
    """Whether it does more than look at tensors in other ways, which PyTorch does at no cost."""
    return any(node.target is not operator.getitem and not is_view(node.target) for node in partition.nodes)


def _compile(module: fx.GraphModule, call: fx.Node, constants: Mapping[str, torch.Tensor], name: str, build: Build) -> None:
    """Puts an executable in the place of a subgraph."""
    part = module.get_submodule(str(call.target))
    assert isinstance(part, fx.GraphModule)
    placeholders = [n for n in part.graph.nodes if n.op == "placeholder"]
    known = {
        p.name: constants[given.name]
        for p, given in zip(placeholders, call.args)
        if isinstance(given, fx.Node) and given.name in constants
    }
    imported = import_graph(part.graph, known, f"{name}_{call.target}", as_they_lie=True)
    places = {p.name: n for n, p in enumerate(placeholders)}
    (output,) = (n for n in part.graph.nodes if n.op == "output")
    single = not isinstance(output.args[0], tuple | list)
    network = Network(imported, build(imported.graph))
    setattr(module, str(call.target), _Part(network, [places[n] for n in imported.inputs], single))


def views_of_inputs(graph: fx.Graph, inputs: Collection[str]) -> set[fx.Node]:
    """The nodes that give, as outputs, an input seen in another way: whoever writes to such a result writes to the input."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    found: set[fx.Node] = set()
    for node in output.all_input_nodes:
        chain: list[fx.Node] = []
        while node.op == "call_function" and is_view(node.target):
            chain.append(node)
            node = node.args[0]
        if node.op == "placeholder" and node.name in inputs:
            found.update(chain)
    return found
