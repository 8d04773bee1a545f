"""Tasks: what a network asks of the tuner, and how its kernels are called one after the other.

    partition(graph).tasks    conv+add+relu  x 16,  conv+add+add+relu  x 16,  matmul+add  x 1,  ...

A task is a workload with the number of its calls as weight. Calls of one task differ in the values they read and write alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.graph import operators
from tensorsmith.graph.fuse import fuse
from tensorsmith.graph.graph import Array, Graph
from tensorsmith.graph.memory import View, placed
from tensorsmith.graph.operators import Kind
from tensorsmith.graph.workloads import Workloads
from tensorsmith.lang import evaluate as reference
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.rewrites.formulations import Formulation, chosen, formulations
from tensorsmith.runtime.arguments import CALL_NUMBER
from tensorsmith.show import units
from tensorsmith.show.line import line, many
from tensorsmith.show.listed import Listed
from tensorsmith.show.table import Cell, Number, table

_LEAST_GROWTH = 32 << 20  # bytes by which the constants of any network may grow, for formulations that need larger ones; else half
_ALIKE = 0.99  # of the bytes per work: as dear (the same convolution with another epilogue)


@dataclass(frozen=True)
class Task:
    """A workload of a network. What only moves or maps elements is not `tunable`: the default schedule is as good as any."""

    workload: Workload
    name: str  # its workload's title
    weight: int  # how many calls
    tunable: bool
    origins: tuple[str, ...]  # the nodes of the model it stands for
    formulations: tuple[Formulation, ...] = ()  # that the network has memory for; none: all there are

    def __repr__(self) -> str:
        calls = f": {many(self.weight, 'call')}{'' if self.tunable else ', not tuned'}"
        return line(self, self.name, f"{calls}, key {self.workload.key[:8]}")

    def _repr_html_(self) -> str:
        return Tasks([self])._repr_html_()


class Tasks(Listed[Task]):
    """The tasks of a network."""

    def summary(self) -> str:
        return f"of {many(len(self), 'task')}, {sum(t.tunable for t in self)} to tune, {many(sum(t.weight for t in self), 'call')}"

    def _repr_html_(self) -> str:
        work = [flops(task.workload) for task in self]
        total = sum(n * task.weight for n, task in zip(work, self)) or 1
        rows: list[list[Cell]] = [
            [
                task.name,
                task.workload.key,
                task.weight,
                Number(n, units.flops(n)),
                Number(n * task.weight / total, f"{n * task.weight / total:.1%}"),
                "yes" if task.tunable else "no",
            ]
            for n, task in zip(work, self)
        ]
        return table(("task", "workload", "calls", "MFLOP", "share of FLOPs", "to tune"), rows, sortable=True)


@dataclass(frozen=True)
class Call:
    """One execution of a task: values of the graph in the order of the workload's inputs and outputs, which may have the same
    elements under other shapes (`graph.merging`)."""

    task: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Partition:
    """A graph as calls in execution order.

    A view is the memory of another value (never itself a view) under another shape, or a piece of it. Where calls write to views,
    the value is made of all of them.
    """

    graph: Graph
    tasks: tuple[Task, ...]
    calls: tuple[Call, ...]
    views: Mapping[str, View]

    def __repr__(self) -> str:
        return line(self, f"of {self.graph.name}: {many(len(self.tasks), 'task')}, {many(len(self.calls), 'call')}")

    def __str__(self) -> str:
        lines = [f"{t.weight:4d} x {t.name}{'' if t.tunable else '  (not tuned)'}" for t in self.tasks]
        return "\n".join(lines)


def partition(graph: Graph, pairs: bool = False) -> Partition:
    """The tasks and calls of a graph, as it is: `passes.optimise` comes before. `pairs`: for a machine that multiplies bytes in
    pairs of i16, where they are not small."""
    fusion = fuse(graph)
    workloads = Workloads(graph, fusion.groups)
    tasks: list[Task] = []
    known: dict[Workload, int] = {}
    calls: list[Call] = []
    origins: list[list[str]] = []  # of each task
    for group in fusion.groups:
        workload, inputs = workloads.of(group)
        if workload not in known:
            known[workload] = len(tasks)
            tunable = any(operators.kind(graph.nodes[n]) in (Kind.REDUCTION, Kind.COMPLEX) for n in group.nodes)
            tasks.append(Task(workload, workload.title, 0, tunable, ()))
            origins.append([])
        number = known[workload]
        origins[number] += dict.fromkeys(graph.nodes[n].origin for n in group.nodes if graph.nodes[n].origin)
        calls.append(Call(number, inputs, group.outputs))
    weights = Counter(call.task for call in calls)
    tasks = [replace(t, weight=weights[n], origins=tuple(origins[n])) for n, t in enumerate(tasks)]
    constants = sum(array.nbytes for array in graph.constants.values())
    budget = max(_LEAST_GROWTH, constants // 2) - (_stored_as_pairs(graph) if pairs else 0)
    return Partition(graph, _affordable(tasks, max(0, budget), pairs), tuple(calls), fusion.views)


def _stored_as_pairs(graph: Graph) -> int:
    """Bytes by which constants of bytes grow at most that are packed as i16: as many again. (What is used seldom stays bytes.)"""
    products = [n for n in graph.nodes if n.operator in ("integer_conv", "integer_matmul") and not n.attributes.get("small_weight")]
    return sum(graph.constants[w].nbytes for w in {n.inputs[1] for n in products} if w in graph.constants)


def _affordable(tasks: Sequence[Task], budget: int, pairs: bool = False) -> tuple[Task, ...]:
    """The tasks with such formulations that, whichever are used, constants grow by no more bytes than that.

    What gives least for its memory is given up first: most bytes for the work of a call. Equal ones go together.
    """
    options = [list(formulations(t.workload, pairs)) for t in tasks]
    work = [max(1, flops(t.workload)) for t in tasks]
    while True:
        largest = [max(found, key=lambda f: f.growth) for found in options]
        if sum(t.weight * f.growth for t, f in zip(tasks, largest)) <= budget:
            return tuple(replace(t, formulations=tuple(found)) for t, found in zip(tasks, options))
        dearest = max(f.growth / w for f, w in zip(largest, work))
        for found, f, w in zip(options, largest, work):
            if f.growth / w > _ALIKE * dearest:
                found.remove(f)


def with_formulations(partition: Partition, which: str) -> Partition:
    """The same with "all" formulations of the tasks, or with none but the "direct" ones."""
    return replace(partition, tasks=tuple(replace(t, formulations=tuple(chosen(t.formulations, which))) for t in partition.tasks))


def evaluate(partition: Partition, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a partitioned graph by name, call by call with the reference evaluator: the oracle of executables."""
    graph, inputs = partition.graph, {CALL_NUMBER: np.zeros((), np.uint32), **inputs}
    missing = [v.name for v in graph.inputs if v.name not in inputs]
    if missing:
        raise UserError(f"input {missing[0]} is missing; {graph.name} takes {', '.join(v.name for v in graph.inputs)}")
    arrays: dict[str, Array] = {v.name: inputs[v.name] for v in graph.inputs} | dict(graph.constants)

    def value(name: str) -> Array:
        """Its own array, or the piece of another's that it is."""
        view, kind = placed(name, partition.views), graph.values[name]
        if view.base not in arrays:
            arrays[view.base] = np.empty(graph.values[view.base].shape, dtype(kind.dtype).numpy)
        array = arrays[view.base]
        start = view.offset // array.itemsize
        return array.reshape(-1)[start : start + kind.elements].reshape(kind.shape)

    for call in partition.calls:
        workload = partition.tasks[call.task].workload
        results = reference.evaluate(workload, {b.name: value(v).reshape(b.shape) for b, v in zip(workload.inputs, call.inputs)})
        for v, name in zip(call.outputs, workload.outputs):
            result = results[name].reshape(graph.values[v].shape)
            if v in partition.views:
                value(v)[...] = result
            else:
                arrays[v] = result
    return {outside: value(name) for outside, name in graph.outputs}
