"""The workload of a fused group.

Names come from places and operators, never from the graph, so that equal groups have equal workloads: the residual blocks of a
network are one task. A constant with one element is a number in the definition, unless many groups differ in it alone: the steps
of a loop that was laid out read the number of their step, and are one task as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tensorsmith.graph import operators
from tensorsmith.graph.fuse import Group
from tensorsmith.graph.graph import Array, Graph, Node, Value
from tensorsmith.graph.merging import merged
from tensorsmith.graph.stages import simplified
from tensorsmith.lang.define import Tensor, compute, placeholder, workload
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Const
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.common import compute_named

_COMMUTATIVE = ("add", "multiply", "maximum", "minimum")
_LONGEST_NAME = 60  # characters of the operators of a group
_QUANTISED = ("quantize", "dequantize", "requantize")
_MANY_NUMBERS = 16  # that a definition has in the same place in different groups: from then on it reads them


class Workloads:
    """The workloads of a graph's groups. Large networks repeat themselves: of groups that are alike, one is defined."""

    def __init__(self, graph: Graph, groups: Iterable[Group]) -> None:
        self.graph = graph
        self._looks = {group.outputs: _looks(graph, group) for group in groups}
        self._varying = _varying(self._looks.values())
        self._known: dict[tuple[object, ...], tuple[Workload, tuple[int, ...]]] = {}

    def of(self, group: Group) -> tuple[Workload, tuple[str, ...]]:
        """The workload of a group, and the values of the graph that are its inputs, in its order."""
        looks = self._looks[group.outputs]
        varying = self._varying.get(looks.structure, frozenset())
        key = looks.structure, tuple("" if n in varying else number for n, number in enumerate(looks.numbers))
        if key not in self._known:
            workload, inputs = _Definer(self.graph, group, {looks.outside[n] for n in varying}).workload()
            self._known[key] = workload, tuple(looks.outside.index(name) for name in inputs)
        workload, places = self._known[key]
        return workload, tuple(looks.outside[n] for n in places)


@dataclass(frozen=True)
class _Looks:
    """What the definition of a group depends on, in the order in which it comes to it: all but numbers, and for each of the values
    that it reads from `outside` its number, if it is one."""

    structure: tuple[object, ...]
    numbers: tuple[str, ...]
    outside: tuple[str, ...]


def _varying(everyone: Iterable[_Looks]) -> dict[tuple[object, ...], frozenset[int]]:
    """By structure, which of the values read from outside are different numbers in too many of the groups."""
    seen: dict[tuple[object, ...], dict[tuple[str, ...], None]] = {}
    for looks in everyone:
        seen.setdefault(looks.structure, {})[looks.numbers] = None
    return {
        structure: frozenset(n for n, there in enumerate(zip(*numbers)) if len(set(there)) > 1)
        for structure, numbers in seen.items()
        if len(numbers) > (1 if _is_quantised(structure) else _MANY_NUMBERS)
    }


def _is_quantised(structure: tuple[object, ...]) -> bool:
    """Whether groups of a structure have scales and zero points: every layer of a network has its own, and all else alike."""
    nodes, _ = structure
    assert isinstance(nodes, tuple)
    return any(part[0] in _QUANTISED for part in nodes)


def _looks(graph: Graph, group: Group) -> _Looks:
    inside = {v.name: graph.nodes[n] for n in group.nodes for v in graph.nodes[n].outputs}
    numbers: dict[str, int] = {}
    parts: list[object] = []
    outside: list[str] = []
    found: list[str] = []  # the numbers of those

    def visit(name: str) -> None:
        if name in numbers:
            return
        node = inside.get(name)
        if node is None:
            value, array = graph.values[name], graph.constants.get(name)
            is_number = array is not None and array.size == 1
            outside.append(name)
            found.append(repr(array.item()) if array is not None and is_number else "")
            parts.append((value.shape, value.dtype, array is not None, is_number))
            numbers[name] = len(numbers)
            return
        operands = _operands(node, inside)
        for x in operands:
            visit(x)
        parts.append((node.operator, tuple(numbers[x] for x in operands), node.options))
        for v in node.outputs:
            numbers[v.name] = len(numbers)

    for name in group.outputs:
        visit(name)
    return _Looks((tuple(parts), tuple(numbers[name] for name in group.outputs)), tuple(found), tuple(outside))


def _operands(node: Node, inside: Collection[str]) -> list[str]:
    """What a node reads; of two operands that may change places, one that is computed in the group comes first."""
    operands = list(node.inputs)
    if node.operator in _COMMUTATIVE and operands[0] not in inside and operands[1] in inside:
        operands.reverse()
    return operands


class _Definer:
    """Defines values from the outputs back, operands in order: the order of nodes in the graph does not matter.

    The numbers that are `read` are inputs as other constants are.
    """

    def __init__(self, graph: Graph, group: Group, read: Collection[str] = ()) -> None:
        self.graph, self.group, self.read = graph, group, read
        self.inside = {v.name: graph.nodes[n] for n in group.nodes for v in graph.nodes[n].outputs}
        self.tensors: dict[str, Tensor] = {}
        self.inputs: dict[str, Tensor] = {}
        self.used: dict[str, int] = {}

    def workload(self) -> tuple[Workload, tuple[str, ...]]:
        outputs: list[Tensor] = []
        for name in self.group.outputs:
            tensor = self._tensor(name)
            if tensor.stage is None or tensor in outputs:  # an operator that gave back what it got
                tensor = _copy(tensor, self._name("copy"))
            outputs.append(tensor)
        made = merged(simplified(workload([*self.inputs.values(), *outputs]))).check()
        read = {x.tensor for s in made.stages for x in s.reads}
        kept = tuple(b for b in made.inputs if b.name in read)
        by_name = {t.name: value for value, t in self.inputs.items()}
        named = Workload(kept, made.stages, made.outputs, _operators(self.graph, self.group))
        return named, tuple(by_name[b.name] for b in kept)

    def _tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            if name in self.inside:
                self._define(name)
            else:
                self.tensors[name] = self._input(self.graph.values[name], self.graph.constants.get(name))
        return self.tensors[name]

    def _define(self, name: str) -> None:
        node = self.inside[name]
        tensors = [self._tensor(x) for x in _operands(node, self.inside)]
        made = operators.define(node.operator, tensors, node.attributes, self._name(node.operator))
        self.tensors |= {v.name: t for v, t in zip(node.outputs, made)}

    def _input(self, value: Value, array: Array | None) -> Tensor:
        if array is not None and array.size == 1 and value.name not in self.read:
            kinds = {"f": float, "b": bool}
            number = Const(kinds.get(dtype(value.dtype).kind, int)(array.item()), value.dtype)
            return compute_named(value.shape, [f"i{d}" for d in range(len(value.shape))], lambda i: number, self._name("number"))
        name = self._name("x" if array is None else "w")
        self.inputs[value.name] = placeholder(value.shape, value.dtype, name=name, constant=array is not None)
        return self.inputs[value.name]

    def _name(self, wanted: str) -> str:
        count = self.used[wanted] = self.used.get(wanted, 0) + 1
        if wanted in ("x", "w"):
            return f"{wanted}{count}"
        return wanted if count == 1 else f"{wanted}{count}"


def _operators(graph: Graph, group: Group) -> str:
    """Operators in order, movements that are only read through left out."""
    names = [graph.nodes[n].operator for n in group.nodes if n not in group.copied]
    whole = "+".join(names)
    return whole if len(whole) <= _LONGEST_NAME else f"{whole[:_LONGEST_NAME]}+..({len(names)} nodes)"


def _copy(tensor: Tensor, name: str) -> Tensor:
    return compute(tensor.shape, lambda *i: tensor[i], name=name)
