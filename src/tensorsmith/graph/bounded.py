"""A network that is compiled for the largest sizes of its open dimensions and runs at every smaller one, with work in proportion.

The network at the largest sizes is cut into calls of tasks, and so is the network at each of a few *samples*: one size less in one
dimension. They have to be the same calls of the same definitions on other extents. Then what a smaller call has of every axis
follows from the inputs, definition by definition (`lang/counts.py`), and what follows has to be what the samples have. Numbers in a
definition that are a product of sizes or its reciprocal (in a mean) become inputs of the network (`numbers.py`). Whatever else is
not the same (an offset in a concatenation) is refused: the caller then compiles a network for each size.

Where an index is computed from an open axis, as in x[2 * i], extents are not all those of the inputs, and far smaller samples have
to agree as well.

Constants may be longer at the largest sizes (a table of positions), if those of the samples are their beginnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorsmith.errors import Refusal, TensorsmithError
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value
from tensorsmith.graph.memory import placed
from tensorsmith.graph.model import Model
from tensorsmith.graph.numbers import SizeNumber, size_number, with_numbers
from tensorsmith.graph.tasks import Call, Partition, Task
from tensorsmith.lang.counts import UNKNOWN, Counted, Digit, Digits, Form, fixed, is_open, regrouped, size, value
from tensorsmith.lang.expr import Const, Expr, Load
from tensorsmith.lang.workload import Buffer, Stage, Workload
from tensorsmith.runtime.variants.symbols import OpenArgument, Sizes, symbols_of

Shape = tuple[Digits, ...]  # what a call has of each dimension of a tensor


@dataclass(frozen=True)
class Bounded:
    """A network at the largest sizes, and what smaller calls have of it: of the inputs of each task, and of the outputs."""

    partition: Partition
    counted: tuple[Counted | None, ...]  # None: every call has all
    outputs: tuple[Shape, ...]
    numbers: tuple[SizeNumber, ...]  # inputs of the network behind those of the model, in arrays of one element


def bounded(model_at: Callable[[Sizes], Model], inputs: Sequence[OpenArgument], largest: Sizes) -> Bounded:
    """The network of all sizes up to the `largest`. Raises `Refusal` where a smaller one is another network."""
    whole = model_at(largest)
    near = [_less(largest, n) for n, top in enumerate(largest) if top > 1]
    if not near:
        raise Refusal("not bounded", "no open dimension may be smaller")
    found = _compared(model_at, inputs, largest, whole, near)
    if not found.computes:
        return found.bounded
    far = [tuple(min(top, max(2, top // 3 | 1)) for top in largest), tuple(min(top, 2) for top in largest)]
    return _compared(model_at, inputs, largest, whole, list(dict.fromkeys((*near, *far)))).bounded


def _compared(
    model_at: Callable[[Sizes], Model], inputs: Sequence[OpenArgument], largest: Sizes, whole: Model, samples: Sequence[Sizes]
) -> _Comparison:
    others = []
    for sizes in samples:
        try:
            others.append(model_at(sizes))
        except TensorsmithError as problem:
            raise Refusal("not bounded", f"the network at {sizes} cannot be made: {problem}") from problem
    return _Comparison(symbols_of(inputs), largest, inputs, whole, samples, others)


def without_lookups(graph: Graph) -> Graph:
    """The graph without lookups of every element in order, which exporters write for masks: their indices depend on the size."""

    def rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        if node.operator != "gather":
            return None
        indices, n = builder.known(inputs[1]), inputs[0].shape[node.attributes.get("axis", 0)]
        if indices is None or indices.size != n or not np.array_equal(indices.reshape(-1), np.arange(n)):
            return None
        return [builder.add("reshape", [inputs[0]], shape=node.output.shape)]

    return rebuilt(graph, lambda: rewrite)


def _less(largest: Sizes, symbol: int) -> Sizes:
    return tuple(top - (n == symbol) for n, top in enumerate(largest))


class _Comparison:
    """Of the network at the largest sizes with those at the samples."""

    def __init__(
        self,
        symbols: Sequence[str],
        largest: Sizes,
        inputs: Sequence[OpenArgument],
        whole: Model,
        samples: Sequence[Sizes],
        others: Sequence[Model],
    ) -> None:
        self.largest, self.samples = largest, samples
        self.whole, self.others = whole.partition, [m.partition for m in others]
        self.names: list[dict[str, str]] = [{} for _ in others]  # of a value of the whole network: its name in each sample
        self.shapes: dict[str, Shape] = {}
        forms = {symbol: _symbol(n, len(symbols)) for n, symbol in enumerate(symbols)}
        graphs = [self.whole.graph, *(p.graph for p in self.others)]
        if len({len(g.inputs) for g in graphs}) > 1 or len(inputs) != len(graphs[0].inputs):
            raise _refused("it draws random numbers, or reads its inputs in another way")
        for argument, *values in zip(inputs, *(g.inputs for g in graphs)):
            self._pair([v.name for v in values])
            dims = [_open(largest[symbols.index(d)], forms[d]) if isinstance(d, str) else fixed(d) for d in argument.dims]
            self.shapes[values[0].name] = tuple(dims)
        self.numbers: list[SizeNumber] = []
        self.computes = False  # whether an index is computed from an open axis
        self.bounded = self._bounded()

    def _bounded(self) -> Bounded:
        if len({len(p.calls) for p in (self.whole, *self.others)}) > 1:
            raise _refused("other sizes give other kernels")
        tasks: list[Task] = []
        counted: list[Counted | None] = []
        calls: list[Call] = []
        known: dict[tuple[int, object], int] = {}
        for call, *others in zip(self.whole.calls, *(p.calls for p in self.others)):
            workload, read, found = self._call(call, others)
            call = replace(call, inputs=(*call.inputs, *read))
            key = (call.task, None if found is None else (tuple(found.inputs.items()), tuple(sorted(found.known.items()))))
            if key not in known:
                known[key] = len(tasks)
                task = self.whole.tasks[call.task]
                tasks.append(replace(task, workload=workload, weight=0, formulations=() if read else task.formulations))
                counted.append(found)
            number = known[key]
            tasks[number] = replace(tasks[number], weight=tasks[number].weight + 1)
            calls.append(replace(call, task=number))
        outputs = []
        for (_, name), *others in zip(self.whole.graph.outputs, *(p.graph.outputs for p in self.others)):
            self._same(name, [other for _, other in others])
            outputs.append(self._shape(name))
        graph = self.whole.graph
        more = tuple(Value(_number_name(n), (1,), number.dtype) for n, number in enumerate(self.numbers))
        graph = replace(graph, inputs=(*graph.inputs, *more))
        partition = replace(self.whole, graph=graph, tasks=tuple(tasks), calls=tuple(calls))
        return Bounded(partition, tuple(counted), tuple(outputs), tuple(self.numbers))

    # -- values ------------------------------------------------------------------------------------------------------

    def _pair(self, names: Sequence[str]) -> None:
        for known, name in zip(self.names, names[1:]):
            known[names[0]] = name

    def _same(self, name: str, others: Sequence[str]) -> None:
        """Raises `Refusal` unless the values of the samples are what the value of the whole network is there."""
        for n, other in enumerate(others):
            known = self.names[n]
            if name in known:
                if known[name] != other:
                    raise _refused("it reads other values at another size")
                continue
            if name in self.whole.graph.constants:
                self._constant(name, others)
                return
            view, theirs = placed(name, self.whole.views), placed(other, self.others[n].views)
            if view.base == name or known.get(view.base) != theirs.base:
                raise _refused("it reads other values at another size")
            if view.offset:
                raise _refused("a piece of a value lies elsewhere at another size")

    def _constant(self, name: str, others: Sequence[str]) -> None:
        mine = self.whole.graph.constants[name]
        theirs: list[Array] = []
        for partition, other in zip(self.others, others):
            array = partition.graph.constants.get(other)
            if array is None or not _begins(mine, array):
                raise _refused("a constant depends on the size")
            theirs.append(array)
        self._pair([name, *others])
        self.shapes[name] = tuple(self._fitted(n, [a.shape[d] for a in theirs]) for d, n in enumerate(mine.shape))

    def _fitted(self, extent: int, smaller: Sequence[int]) -> Digits:
        """The digit of a dimension of that extent, and of these at the samples: one open dimension, or none."""
        if all(n == extent for n in smaller):
            return fixed(extent)
        for (n, form), _ in zip(self._forms(), self.largest):
            if extent == self.largest[n] and all(value(form, sizes) == got for sizes, got in zip(self.samples, smaller)):
                return _open(extent, form)
        raise _refused(f"an extent is {extent} at the largest sizes, and {', '.join(map(str, smaller))} at others")

    def _forms(self) -> list[tuple[int, Form]]:
        return [(n, _symbol(n, len(self.largest))) for n in range(len(self.largest))]

    def _shape(self, name: str) -> Shape:
        """What a call has of a value of the whole network."""
        if name not in self.shapes:
            view = placed(name, self.whole.views)
            if view.base == name or view.base not in self.shapes or view.offset:
                raise _refused("a value is made of pieces")
            whole, kind = self.whole.graph.values[view.base], self.whole.graph.values[name]
            if whole.elements != kind.elements:
                raise _refused("a value is a piece of another")
            self.shapes[name] = self._regrouped(self.shapes[view.base], kind.shape)
        return self.shapes[name]

    def _regrouped(self, shape: Shape, wanted: Sequence[int]) -> Shape:
        found = regrouped([d for digits in shape for d in digits], wanted)
        if found is None:
            raise _refused("a reshape takes an open dimension apart")
        return found

    # -- calls -------------------------------------------------------------------------------------------------------

    def _call(self, call: Call, others: Sequence[Call]) -> tuple[Workload, tuple[str, ...], Counted | None]:
        """The workload of a call, the numbers that it reads besides its inputs, and what calls have of those."""
        workloads = [self.whole.tasks[call.task].workload]
        workloads += [p.tasks[other.task].workload for p, other in zip(self.others, others)]
        workload = workloads[0]
        if any(len(other.inputs) != len(call.inputs) or len(other.outputs) != len(call.outputs) for other in others):
            raise _refused(f"{workload.title} is another kernel at another size")
        for name, *theirs in zip(call.inputs, *(other.inputs for other in others)):
            self._same(name, theirs)
        read: dict[str, Buffer] = {}
        workload, known = self._alike(workloads, read)
        shapes = {b.name: self._regrouped(self._shape(name), b.shape) for b, name in zip(workload.inputs, call.inputs)}
        counted = Counted(shapes, known)
        axes = counted.axes(workload)
        self.computes = self.computes or _computes(Counted(shapes), workload, axes)
        for (stage, axis), digits in axes.items():
            for sizes, other in zip(self.samples, workloads[1:]):
                if digits == UNKNOWN or size(digits, sizes) != other.stage(stage).axis(axis).extent:
                    raise _refused(f"{stage} of {workload.title} has another extent than follows from its operands")
        for name, output, *theirs in zip(call.outputs, workload.outputs, *(other.outputs for other in others)):
            if name in self.whole.views:
                raise _refused("a value is made of pieces")
            self._pair([name, *theirs])
            of_axes = tuple(axes[output, a.name] for a in workload.stage(output).axes)
            self.shapes[name] = self._regrouped(of_axes, self.whole.graph.values[name].shape)
        return workload, tuple(read), counted if any(is_open(digits) for digits in axes.values()) else None

    def _alike(self, workloads: Sequence[Workload], read: dict[str, Buffer]) -> tuple[Workload, dict[tuple[str, str], Digits]]:
        """The workload with numbers that follow from sizes in inputs, which it adds to `read`; and those of its axes whose extents
        are the same at all sizes, or an open dimension's. `Refusal` where its definition is another one at another size."""
        first, known = workloads[0], dict[tuple[str, str], Digits]()
        stages: list[Stage] = []

        def number(name: str, mine: float, theirs: Sequence[float]) -> Expr | None:
            found = size_number(name, self.largest, mine, list(zip(self.samples, theirs)))
            if found is None:
                return None
            if found not in self.numbers:
                self.numbers.append(found)
            value = _number_name(self.numbers.index(found))
            buffer = read.setdefault(value, Buffer(f"n{len(read) + 1}", (1,), name))
            return Load(buffer.name, (Const(0, "i64"),), name)

        if len({(tuple(s.name for s in w.stages), tuple(b.name for b in w.inputs), w.outputs) for w in workloads}) > 1:
            raise _refused(f"{first.title} is defined in another way at another size")
        for stage, *others in zip(first.stages, *(w.stages for w in workloads[1:])):
            body = with_numbers(stage.body, [other.body for other in others], number)
            if body is None or not all(_same_axes(stage, other) for other in others):
                raise _refused(f"{stage.name} of {first.title} depends on the size")
            stages.append(stage if body is stage.body else replace(stage, body=body))
            for axis in stage.all_axes:
                smaller = [other.axis(axis.name).extent for other in others]
                if math.prod(smaller) == axis.extent ** len(smaller) or axis.extent in self.largest:
                    known[stage.name, axis.name] = self._fitted(axis.extent, smaller)
        return (replace(first, inputs=(*first.inputs, *read.values()), stages=tuple(stages)) if read else first), known


def _same_axes(a: Stage, b: Stage) -> bool:
    names = [[x.name for x in s.all_axes] for s in (a, b)]
    return names[0] == names[1] and a.reduction == b.reduction and a.dtype == b.dtype


def _computes(counted: Counted, workload: Workload, axes: Mapping[tuple[str, str], Digits]) -> bool:
    """Whether what calls have of the axes does not follow from the operands alone."""
    try:
        return counted.axes(workload) != axes
    except Refusal:
        return True


def _number_name(number: int) -> str:
    return f"tensorsmith.number.{number}"


def _symbol(number: int, count: int) -> Form:
    return (0, *(int(n == number) for n in range(count)))


def _open(extent: int, form: Form) -> Digits:
    """An axis of an open dimension; one that can only be 1 is not open."""
    return fixed(1) if extent == 1 else (Digit(extent, form),)


def _begins(whole: Array, part: Array) -> bool:
    """Whether an array is the beginning of another one, along each dimension."""
    if whole.dtype != part.dtype or whole.ndim != part.ndim or any(m > n for m, n in zip(part.shape, whole.shape)):
        return False
    beginning = whole if whole.shape == part.shape else whole[tuple(slice(n) for n in part.shape)]
    return beginning is part or bool(np.array_equal(_bytes(beginning), _bytes(part)))


def _bytes(array: Array) -> Array:
    """Its bytes: numbers that are no numbers are equal to themselves there."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8)


def _refused(why: str) -> Refusal:
    return Refusal("not bounded", why)
