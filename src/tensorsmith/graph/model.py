"""A network as it was imported: its graph, what the passes make of it, and the tasks it consists of."""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.garbage import uncollected
from tensorsmith.graph.graph import Array, Graph, Value
from tensorsmith.runtime.arguments import CALL_NUMBER, Argument, random_arrays
from tensorsmith.runtime.drawing import presented
from tensorsmith.show.line import line, many, plain
from tensorsmith.show.table import block, table
from tensorsmith.show.units import size

if TYPE_CHECKING:
    from tensorsmith.graph.passes.weights import Weights
    from tensorsmith.graph.tasks import Partition, Tasks
    from tensorsmith.graph.weights_error import WeightsError
    from tensorsmith.runtime.executable import Executable


class Model:
    """A network of fixed shapes. `ts.compile(model)` makes it an executable, `ts.tune(model)` searches for a fast one.

    It can be printed, and asked for its tasks and for what it should give:

        model = ts.load("model.onnx")
        print(model)
        for task in model.tasks():
            print(task.weight, task.name)
        wanted = model.evaluate({"x": x})
    """

    integers = True  # quantised numbers are multiplied as integers; else as the real numbers that they stand for, in f32
    pairs = False  # for machines that multiply bytes in pairs of i16: what suits those
    weights: Weights | None = None  # what its weights are stored as; None: as they were imported

    def __init__(self, source: Graph) -> None:
        self.source = source  # as imported: what the network means

    @staticmethod
    def from_graph(graph: Graph) -> Model:
        """The model of a graph made by hand."""
        return Model(graph.check())

    @property
    def name(self) -> str:
        """What the file or the module calls itself."""
        return self.source.name

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What it is called with: name, shape and type of each."""
        return tuple(v for v in self.source.inputs if v.name != CALL_NUMBER)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers, other ones in every call."""
        return len(self.inputs) < len(self.source.inputs)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results under the names that the outside knows."""
        values = self.source.values
        return tuple(Value(outside, values[name].shape, values[name].dtype) for outside, name in self.source.outputs)

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants, as imported, or as `with_weights` stores them."""
        return sum(a.nbytes for a in self._meaning.constants.values())

    @functools.cached_property
    def graph(self) -> Graph:
        """What is compiled: the source after the passes."""
        from tensorsmith.graph.passes import optimise  # passes, fusion and operators are loaded by those who have a network

        with uncollected():
            graph = optimise(self.source, self.integers, self.pairs)
            return graph if self.weights is None else weights_pass().run(graph, self.weights)

    @property
    def _meaning(self) -> Graph:
        """What the network is to compute: with weights in fewer bits, what these make of it."""
        return self.source if self.weights is None else self.graph

    @functools.cached_property
    def partition(self) -> Partition:
        """The graph cut into calls of tasks."""
        from tensorsmith.graph.tasks import partition  # as above

        graph = self.graph
        with uncollected():
            return partition(graph, self.pairs)

    def with_integers(self, integers: bool) -> Model:
        """This network with products of quantised numbers in integers, exact and fast, or in f32."""
        return self if integers == self.integers else self._with(integers=integers)

    def with_pairs(self, pairs: bool) -> Model:
        """This network for machines that multiply bytes in pairs of i16, or for others: products by small weights say so
        (`lang/small.py`), and convolutions of bytes may be Winograd's."""
        return self if pairs == self.pairs else self._with(pairs=pairs)

    def _with(self, **settings: object) -> Model:
        other = copy.copy(self)
        other.__dict__.update(settings)
        for worked_out in ("graph", "partition"):
            other.__dict__.pop(worked_out, None)
        return other

    def with_source(self, source: Graph) -> Model:
        """This network as another graph, which computes the same."""
        return self if source is self.source else self._with(source=source)

    def with_formulations(self, which: str) -> Model:
        """This network with "all" formulations of its tasks, or computed as it is written, "direct"."""
        from tensorsmith.graph.tasks import with_formulations

        partition = with_formulations(self.partition, which)
        if partition == self.partition:
            return self
        allowed = copy.copy(self)
        allowed.graph, allowed.partition, allowed.weights = self.graph, partition, self.weights
        return allowed

    def with_weights(self, weights: str | None) -> Model:
        """This network with its weights stored in fewer bits: "bf16", "f16", or "int8" with a scale for each output channel.

        They are unpacked in registers, and all arithmetic is that of f32, so what reads many weights for little work is faster: a
        product of a matrix and a vector takes a half or a quarter of the bytes. What it costs in accuracy, `weights_error` says.
        """
        made = copy.copy(self)
        for known in ("graph", "partition"):
            made.__dict__.pop(known, None)
        made.weights = None if weights is None else weights_pass().check_weights(weights)
        return made

    def weights_error(self, samples: Sequence[Mapping[str, Array]] | None = None) -> WeightsError:
        """How far the outputs are off those of the network as it was imported, by the reference evaluator, on some sets of inputs
        by name. Without samples, floats are random in -1..1 and integers are ones: give inputs of your own, which say more."""
        if self.weights is None:
            raise UserError("the weights are stored as they were imported; model.with_weights('bf16').weights_error() compares")
        from tensorsmith.graph.weights_error import measured  # as above

        if samples is None:
            arguments = [Argument(v.name, v.shape, v.dtype) for v in self.inputs]
            samples = [dict(zip((v.name for v in self.inputs), random_arrays(arguments)))]
        return measured(self.source, self.graph, self.weights, samples)

    def tasks(self) -> Tasks:
        """The distinct computations of the network, each with how often it runs."""
        from tensorsmith.graph.tasks import Tasks  # as above

        return Tasks(self.partition.tasks)

    def presented(self, executable: Executable) -> Executable:
        """A compiled network of this model as its callers want it: models of some front ends take and give other tensors."""
        return presented(executable)

    def evaluate(self, inputs: Mapping[str, Array] | Sequence[Array], *, call: int = 0) -> dict[str, Array]:
        """What the network gives, by the reference evaluator on the graph as it was imported (with its weights as they are stored):
        slow, and the measure of all else. Where it draws random numbers, those of the `call` of that number."""
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(self.inputs):
                names = ", ".join(v.name for v in self.inputs)
                raise UserError(f"{self.name} takes {many(len(self.inputs), 'input')} ({names}), {len(inputs)} given")
            inputs = {v.name: a for v, a in zip(self.inputs, inputs)}
        return evaluate(self._meaning, {name: np.asarray(array) for name, array in inputs.items()}, call)

    def __str__(self) -> str:
        taken = ", ".join(f"{v.name}: {v}" for v in self.inputs)
        given = ", ".join(f"{v.name}: {v}" for v in self.outputs)
        size = f"{len(self.source.nodes)} operators, {self.constant_bytes / 2**20:.1f} MiB of constants"
        head = plain(f"{self.name}({taken}) -> {given}")
        return "\n".join([head, size, *(f"  {node}  : {', '.join(map(str, node.outputs))}" for node in self.source.nodes)])

    def __repr__(self) -> str:
        taken, given = (", ".join(f"{v.name}: {v}" for v in values) for values in (self.inputs, self.outputs))
        counts = f"{many(len(self.source.nodes), 'operator')}, {size(self.constant_bytes)} of constants"
        return line(self, f"{self.name}({taken}) -> {given}", f": {counts}")

    def _repr_html_(self) -> str:
        ends = [("input", v.name, str(v)) for v in self.inputs] + [("output", v.name, str(v)) for v in self.outputs]
        operators = Counter(node.operator for node in self.source.nodes)
        body = table(("", "name", "type"), ends) + table(("operator", "times"), operators.most_common(), sortable=True)
        counts = f"{many(len(self.source.nodes), 'operator')}, {size(self.constant_bytes)} of constants"
        return block(self.name, body, counts)

    def __reduce__(self) -> tuple[object, ...]:
        """The network as it was imported: what the passes make of it is made again."""
        return _again, (self.source, self.weights, self.integers)


def _again(source: Graph, weights: Weights | None, integers: bool) -> Model:
    model = Model(source).with_integers(integers)
    return model.with_weights(weights) if weights else model


def weights_pass() -> ModuleType:
    """The pass that packs weights, loaded by those who want it."""
    from tensorsmith.graph.passes import weights

    return weights
