"""From a partitioned graph and the kernels of its tasks to a network: where everything lies, and who is called when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.errors import InternalError
from tensorsmith.graph import memory
from tensorsmith.graph.garbage import uncollected
from tensorsmith.graph.graph import Array
from tensorsmith.lang.workload import Buffer
from tensorsmith.runtime.arguments import COUNTS, Argument
from tensorsmith.runtime.built import ARENA, CONSTANT, INPUT, OUTPUT, Kernel, Network, Place, Step
from tensorsmith.runtime.constants import Constants, Content, content
from tensorsmith.targets.target import Target

if TYPE_CHECKING:
    from tensorsmith.graph.tasks import Call, Partition


def assemble(
    partition: Partition,
    kernels: Sequence[Kernel],
    target: Target,
    name: str | None = None,
    constants: Constants | None = None,
    counts: int = 0,
) -> Network:
    """The network of a graph; `kernels` are those of the partition's tasks, in their order, for the target. Networks that are
    assembled with the same `constants` share those that are packed alike. Where kernels read a table of `counts`, that is the last
    input, behind the graph's own."""
    with uncollected():
        return _Assembly(partition, kernels, target, constants or Constants()).network(name or partition.graph.name, counts)


def _table(counts: int) -> list[Argument]:
    return [Argument(COUNTS, (counts,), "i64")] if counts else []


class _Assembly:
    def __init__(self, partition: Partition, kernels: Sequence[Kernel], target: Target, shared: Constants) -> None:
        self.partition, self.graph = partition, partition.graph
        self.kernels = list({id(k): k for k in kernels}.values())
        self.numbers = [next(n for n, k in enumerate(self.kernels) if k is kernel) for kernel in kernels]
        self.threads = target.cores if self.kernels else 1  # that the arena has room for
        self.inputs = {v.name: n for n, v in enumerate(self.graph.inputs)}
        self.constants: list[Array] = []
        self.shared = shared
        self.known: dict[Content, int] = {}  # numbers of constants
        self.packed: dict[tuple[str, int, int], int] = {}  # by their name, the kernel that reads them, and as which argument
        self.in_pieces = {
            v.base for name, v in partition.views.items() if self._is_piece(name, v)
        }  # roots of which views show a part
        self.written = self._written_outputs()
        self.plan = memory.plan(
            [self._use(call) for call in partition.calls],
            {name: value.bytes for name, value in self.graph.values.items()},
            partition.views,
            elsewhere := {*self.inputs, *self.graph.constants, *self.written},
            {self._root(value) for _, value in self.graph.outputs} - elsewhere,  # copied to the caller behind the last call
        )

    def network(self, name: str, counts: int) -> Network:
        steps = [self._step(call) for call in self.partition.calls]
        steps += [step for n, (_, value) in enumerate(self.graph.outputs) if (step := self._copy(n, value)) is not None]
        return Network(
            name,
            (*(Argument(v.name, v.shape, v.dtype) for v in self.graph.inputs), *_table(counts)),
            tuple(Argument(o, self.graph.values[v].shape, self.graph.values[v].dtype) for o, v in self.graph.outputs),
            tuple(self.kernels),
            tuple(steps),
            tuple(self.constants),
            self.plan.bytes,
            self.threads,
        )

    def _root(self, value: str) -> str:
        return memory.root(value, self.partition.views)

    def _is_piece(self, name: str, view: memory.View) -> bool:
        return bool(view.offset) or self.graph.values[name].bytes != self.graph.values[view.base].bytes

    def _written_outputs(self) -> dict[str, int]:
        """The roots that kernels write straight into an output's memory, and which output's. The others are copied in the end.

        So are those that calls read or write in pieces: an argument in the caller's memory begins where the caller's array does.
        """
        found: dict[str, int] = {}
        for n, (_, value) in enumerate(self.graph.outputs):
            base = self._root(value)
            if base not in self.inputs and base not in self.graph.constants and base not in self.in_pieces:
                found.setdefault(base, n)
        return found

    def _use(self, call: Call) -> memory.Use:
        kernel = self.kernels[self.numbers[call.task]]
        kept = {value for n, value in enumerate(call.inputs) if n not in kernel.replaceable}
        return memory.Use(call.inputs, call.outputs, frozenset(call.inputs) - kept, kernel.scratch_for(self.threads))

    def _step(self, call: Call) -> Step:
        workload = self.partition.tasks[call.task].workload
        if len(call.inputs) != len(workload.inputs) or len(call.outputs) != len(workload.outputs):
            raise InternalError(f"a call of {self.partition.tasks[call.task].name} has not the arguments of its workload")
        places = [self._argument(call, n, buffer) for n, buffer in enumerate(workload.inputs)]
        if self.kernels[self.numbers[call.task]].reads > len(places):
            places.append(Place(INPUT, len(self.inputs)))  # the table of counts
        places += [self._place(value) for value in call.outputs]
        return Step(self.numbers[call.task], tuple(places))

    def _argument(self, call: Call, number: int, buffer: Buffer) -> Place:
        value = call.inputs[number]
        base = self._root(value)
        kernel = self.numbers[call.task]
        packer = self.kernels[kernel].packers.get(number)
        if base in self.graph.constants:
            if (base, kernel, number) not in self.packed:  # the steps of a recurrence all read the same weight
                array = self.graph.constants[base].reshape(buffer.shape)
                self.packed[base, kernel, number] = self._constant(array if packer is None else packer(array))
            return Place(CONSTANT, self.packed[base, kernel, number])
        if packer is not None:
            raise InternalError(
                f"{value} goes to the constant {buffer.name} of {self.partition.tasks[call.task].name}, and is none"
            )
        return self._place(value)

    def _place(self, value: str) -> Place:
        """Where a value lies."""
        base = self._root(value)
        if base not in self.plan.offsets and base in self.in_pieces:
            raise InternalError(f"{value} is a piece of {base}, which is not in the arena")
        if base in self.inputs:
            return Place(INPUT, self.inputs[base])
        if base in self.graph.constants:
            return Place(CONSTANT, self._constant(self.graph.constants[base]))
        if base in self.written:
            return Place(OUTPUT, self.written[base])
        return Place(ARENA, self.plan.offsets[value])

    def _constant(self, array: Array) -> int:
        """The number of a constant; equal ones are kept once."""
        array = np.ascontiguousarray(array)
        key = content(array)
        if key not in self.known:
            self.known[key] = len(self.constants)
            self.constants.append(self.shared.kept(array, key))
        return self.known[key]

    def _copy(self, output: int, value: str) -> Step | None:
        """The step that fills an output which no kernel writes: it is an input, a constant, or another output once more."""
        place, there = self._place(value), Place(OUTPUT, output)
        return None if place == there else Step(None, (place, there), self.graph.values[value].bytes)
