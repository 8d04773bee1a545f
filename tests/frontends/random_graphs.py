"""Random ONNX graphs, grown node by node; ONNX Runtime runs every node as it is added, so shapes and values are always at hand.

Every tensor carries two *twins*: what it would be if all computed values were off by a few roundings, up in one and down in the
other. How far the twins have gone apart is the tolerance of that tensor, so cancellation, long sums and steep functions are
accounted for where they occur. A node that the twins take for another result altogether (a comparison of nearly equal numbers,
a rounding close to a half) is not added, nor is one that ONNX Runtime refuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper

Array = np.ndarray
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17)  # around the numbers of lanes, primes, and 1
OPSETS = (11, 13, 17, 21)
LARGEST = 5000  # elements of a tensor
_ROUNDING = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-13}  # by which a computed value may be off, relatively
_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
_HUGE = 1e5  # a graph is about ordinary numbers
_CLOSE = 0.02  # twins that are this far apart, relatively, say nothing any more

onnxruntime.set_default_logger_severity(4)


class Refused(Exception):
    """This node does not get into the graph."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the graph in the making."""

    name: str
    value: Array
    twins: tuple[Array, Array]
    known: bool = False  # a constant of the file

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def rank(self) -> int:
        return self.value.ndim

    @property
    def is_float(self) -> bool:
        return self.value.dtype.kind == "f"

    @property
    def kind(self) -> str:
        return str(self.value.dtype)

    def __str__(self) -> str:
        return f"{self.name}:{self.kind}{list(self.shape)}"


@dataclass(frozen=True)
class Case:
    """A finished model with its inputs and what each output may be off by."""

    model: ModelProto
    inputs: dict[str, Array]
    shapes: dict[str, tuple[int, ...]]  # of inputs whose dimensions the file leaves open
    tolerances: list[float]  # absolute, one for each output
    listing: str

    def expected(self, inputs: dict[str, Array] | None = None) -> list[Array]:
        """What ONNX Runtime gives for the whole model, nothing optimised."""
        return _session(self.model).run(None, self.inputs if inputs is None else inputs)


@dataclass
class Maker:
    """A graph in the making. `specials` lets infinities and NaN into it."""

    rng: Random
    opset: int
    specials: bool = False
    inputs: list[Tensor] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = np.random.default_rng(self.rng.getrandbits(32))
        self.numbers = itertools.count()

    # -- choices -----------------------------------------------------------------------------------------------------

    def coin(self, probability: float = 0.5) -> bool:
        return self.rng.random() < probability

    def size(self) -> int:
        return self.rng.choice(SIZES)

    def axis(self, rank: int) -> int:
        """A dimension, counted from either end."""
        if rank == 0:
            raise Refused("a number has no dimensions")
        return self.rng.randrange(-rank, rank)

    def axes(self, rank: int, least: int = 1) -> list[int]:
        """Some dimensions in any order, counted from either end."""
        if rank < least:
            raise Refused("too few dimensions")
        chosen = self.rng.sample(range(rank), self.rng.randint(least, rank))
        return [d - rank if self.coin(0.3) else d for d in chosen]

    def pick(self, fits: Callable[[Tensor], bool] = lambda t: True) -> Tensor:
        """A tensor that fits: mostly one of the latest, seldom a constant."""
        pool = [t for t in self.tensors.values() if fits(t) and (not t.known or self.coin(0.05))]
        if not pool:
            raise Refused("nothing fits")
        return self.rng.choice(pool[-4:] if self.coin(0.7) else pool)

    def pick_float(self, *ranks: int) -> Tensor:
        """A tensor of 32-bit floats of one of the ranks, or any."""
        return self.pick(lambda t: t.kind == "float32" and (not ranks or t.rank in ranks))

    # -- tensors -----------------------------------------------------------------------------------------------------

    def array(self, shape: Sequence[int], kind: str = "float32", scale: float = 1.0) -> Array:
        """Random numbers of a type: floats in -scale..scale, small integers."""
        if kind == "bool":
            return self.data.integers(0, 2, shape).astype(bool)
        if kind in ("uint8", "int8"):
            return self.data.integers(0 if kind == "uint8" else -20, 20, shape).astype(kind)
        if np.dtype(kind).kind in "iu":
            return self.data.integers(-9, 10, shape).astype(kind)
        values = np.asarray(self.data.uniform(-scale, scale, shape))
        if self.coin(0.1):
            values = np.asarray(np.rint(8 * values))
        if self.specials and values.size > 3:
            spots = self.data.integers(0, values.size, 2)
            values.reshape(-1)[spots] = self.data.choice([np.nan, np.inf, -np.inf, 0.0, 1e-40], 2)
        return np.asarray(values, kind)

    def input(self, shape: Sequence[int], kind: str = "float32") -> Tensor:
        array = self.array(shape, kind)
        tensor = self._keep(Tensor(self._name("x"), array, (array, array)))
        self.inputs.append(tensor)
        return tensor

    def constant(self, array: Array) -> Tensor:
        """An initializer, or the result of a Constant node."""
        tensor = self._keep(Tensor(self._name("c"), array, (array, array), known=True))
        if self.coin(0.2):
            self.nodes.append(helper.make_node("Constant", [], [tensor.name], value=numpy_helper.from_array(array)))
        else:
            self.constants.append(tensor)
        return tensor

    def integers(self, *numbers: int) -> Tensor:
        return self.constant(np.array(numbers, np.int64))

    def weight(self, shape: Sequence[int], scale: float = 1.0, kind: str = "float32") -> Tensor:
        """A constant, or now and then an input, with random numbers, none of which is special."""
        specials, self.specials = self.specials, False
        tensor = self.input(shape, kind) if self.coin(0.1) else self.constant(self.array(shape, kind, scale))
        self.specials = specials
        return tensor

    def partner(self, x: Tensor) -> Tensor:
        """A tensor that broadcasts with x: x itself, another one of the graph, or new."""
        fitting = [t for t in self.tensors.values() if t.kind == x.kind and _broadcasts(t.shape, x.shape)]
        if self.coin(0.6):
            return self.rng.choice(fitting)
        shape = [1 if self.coin(0.3) else n for n in x.shape]
        if self.coin(0.5):
            shape = shape[self.rng.randint(0, len(shape)) :]
        elif self.coin(0.1):
            shape = [self.rng.choice((1, 2, 3)), *shape]
        return self.weight(shape, kind=x.kind)

    def add(
        self, kind: str, inputs: Sequence[Tensor | None], outputs: int = 1, exact: bool = False, **attributes: Any
    ) -> list[Tensor]:
        """Adds a node and gives its results; raises `Refused` where that makes no sense. `exact`: nothing is rounded in it.

        Sums, products and quotients that are whole numbers are exact as well.
        """
        given = [t for t in dict.fromkeys(inputs) if t is not None]
        if self.nodes and len(self.nodes) > 80:
            raise Refused("large enough")
        names = [self._name("t") for _ in range(outputs)]
        node = helper.make_node(kind, [t.name if t else "" for t in inputs], names, **attributes)
        inner = not exact and kind not in _ARITHMETIC  # it rounds on the way too, which may count for more than the last rounding
        feeds = [{t.name: t.value for t in given}]
        feeds += [{t.name: self._shaken(t.twins[n], 0.0) if inner else t.twins[n] for t in given} for n in (0, 1)]
        try:
            session = _session(self._model([node], given, names))
            runs = [session.run(None, feed) for feed in feeds]
        except Exception as problem:
            raise Refused(str(problem)) from problem
        results = []
        for name, value, low, high in zip(names, *runs):
            self._check(value)
            whole = kind in _ARITHMETIC and bool((value == np.rint(value)).all())
            twins = (low, high) if exact or whole else (self._shaken(low, 0.1), self._shaken(high, 0.1))
            if _distance(value, twins) > _CLOSE * max(_largest(value), 1e-3) * (value.dtype.kind == "f"):
                raise Refused("badly conditioned")
            results.append(Tensor(name, value, twins))
        self.nodes.append(node)
        return [self._keep(t) for t in results]

    def _check(self, value: Any) -> None:
        if not isinstance(value, np.ndarray) or not 0 < value.size <= LARGEST:
            raise Refused("empty or too large")
        if value.dtype.kind == "f" and not self.specials and not np.isfinite(value).all():
            raise Refused("not finite")
        if _largest(value) > _HUGE:
            raise Refused("large numbers")

    def _shaken(self, value: Array, floor: float) -> Array:
        """A few roundings away from a value, of each element and of a share `floor` of the largest one."""
        if value.dtype.kind != "f":
            return value
        size = _ROUNDING[str(value.dtype)] * (np.abs(value) + floor * _largest(value))
        with np.errstate(invalid="ignore", over="ignore"):
            moved = value + size * self.data.choice((-1, 1), value.shape)
            return np.asarray(np.where(np.isfinite(value), moved, value), value.dtype)

    def _keep(self, tensor: Tensor) -> Tensor:
        self.tensors[tensor.name] = tensor
        return tensor

    def _name(self, letter: str) -> str:
        return f"{letter}{next(self.numbers)}"

    # -- the whole ---------------------------------------------------------------------------------------------------

    def finish(self) -> Case:
        """A model of everything added; most results that nothing reads are outputs, and some others too."""
        rng = self.rng
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes if node.op_type != "Constant" for name in node.output if name]
        leaves = [name for name in made if name not in read]
        outputs = [name for name in leaves if self.coin(0.9)] or leaves[-1:]
        outputs += [name for name in made if name not in outputs and self.coin(0.08)]
        for name in [t.name for t in (*self.inputs, *self.constants)]:
            if self.coin(0.03):
                outputs.append(name)  # an output that is an input, or an initializer
        if self.coin(0.15):  # the same computation under another name
            outputs += [t.name for t in self.add("Identity", [self.tensors[rng.choice(outputs)]], exact=True)]
        if not outputs:
            raise Refused("nothing to compute")
        rng.shuffle(outputs)
        read |= {name for node in self.nodes for name in node.input} | set(outputs)
        constants = [t for t in self.constants if t.name in read]
        inputs = [t for t in self.inputs if t.name in read or self.coin(0.3)]
        opened = {t.name for t in inputs if self.coin(0.1)}
        model = self._model(self.nodes, inputs, outputs, constants, opened, repeat=self.coin(0.1))
        try:
            _session(model)
        except Exception as problem:  # it took each node, but does not like the whole
            raise Refused(str(problem)) from problem
        return Case(
            model,
            {t.name: t.value for t in inputs},
            {t.name: t.shape for t in inputs if t.name in opened},
            [_distance(self.tensors[name].value, self.tensors[name].twins) for name in outputs],
            self._listing(inputs, outputs),
        )

    def _model(
        self,
        nodes: Sequence[NodeProto],
        inputs: Sequence[Tensor],
        outputs: Sequence[str],
        constants: Sequence[Tensor] = (),
        opened: set[str] = frozenset(),  # type: ignore[assignment]
        repeat: bool = False,
    ) -> ModelProto:
        """`opened` inputs have named dimensions without sizes; with `repeat`, initializers are inputs too, as in older files."""
        taken = [*inputs, *(constants if repeat else ())]
        graph = helper.make_graph(
            list(nodes),
            "random",
            [
                helper.make_tensor_value_info(
                    t.name,
                    helper.np_dtype_to_tensor_dtype(t.value.dtype),
                    [f"{t.name}_{d}" for d in range(t.rank)] if t.name in opened else t.shape,
                )
                for t in taken
            ],
            [self._output_info(name) for name in outputs],
            [numpy_helper.from_array(t.value, t.name) for t in constants],
        )
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10 if self.opset > 18 else 8)

    def _output_info(self, name: str) -> Any:
        if name not in self.tensors:
            return helper.make_empty_tensor_value_info(name)
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(self.tensors[name].value.dtype), None)

    def _listing(self, inputs: Sequence[Tensor], outputs: Sequence[str]) -> str:
        lines = [f"opset {self.opset}; inputs {', '.join(map(str, inputs)) or 'none'}"]
        for node in self.nodes:
            if node.op_type != "Constant":
                options = ", ".join(f"{a.name}={_shown(helper.get_attribute_value(a))}" for a in node.attribute)
                given = ", ".join(self._argument(name) for name in node.input)
                lines.append(f"  {', '.join(str(self.tensors[n]) for n in node.output)} = {node.op_type}({given}) {options}")
        return "\n".join([*lines, f"outputs {', '.join(outputs)}"])

    def _argument(self, name: str) -> str:
        tensor = self.tensors.get(name)
        if tensor is None or not tensor.known:
            return name or "-"
        return f"{name}={tensor.value.tolist()}" if tensor.value.size <= 8 else f"const {tensor}"


def random_case(rng: Random, operators: Sequence[tuple[float, Callable[[Maker], Any]]]) -> Case:
    """A graph of some of the weighted `operators`. Raises `Refused` if nothing came of it."""
    maker = Maker(rng, rng.choice(OPSETS), specials=rng.random() < 0.1)
    for _ in range(rng.choice((1, 1, 2, 3))):
        maker.input(*_input_type(maker))
    weights, functions = zip(*operators)
    for _ in range(rng.randint(3, 25)):
        for _ in range(10):
            state = maker.nodes.copy(), maker.constants.copy(), maker.inputs.copy(), dict(maker.tensors)
            try:
                rng.choices(functions, weights)[0](maker)
                break
            except Refused:
                maker.nodes, maker.constants, maker.inputs, maker.tensors = state
    return maker.finish()


def _input_type(maker: Maker) -> tuple[list[int], str]:
    """The shape and the type of an input: images, sequences, matrices, anything."""
    rng = maker.rng
    sizes = [maker.size() for _ in range(5)]
    shapes = (
        [rng.choice((1, 1, 2)), sizes[0], sizes[1], sizes[2]],
        [rng.choice((1, 2)), sizes[0], sizes[1]],
        [rng.choice((1, 2)), rng.choice((1, 3, 8)), sizes[0] % 9 + 1, sizes[1] % 9 + 1, sizes[2] % 5 + 1],
        sizes[:2],
        sizes[: rng.randint(0, 5)],
    )
    shape = list(rng.choices(shapes, (5, 3, 1, 2, 1))[0])
    while np.prod(shape, dtype=int) > LARGEST:
        shape[shape.index(max(shape))] //= 2
    return shape, rng.choices(("float32", "int64", "int32", "bool", "float64", "uint8"), (20, 1, 1, 0.5, 0.5, 0.5))[0]


def _session(model: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _largest(value: Array) -> float:
    """The largest finite magnitude."""
    numbers = np.abs(np.asarray(value, np.float64)).reshape(-1)
    numbers = numbers[np.isfinite(numbers)]
    return float(numbers.max()) if numbers.size else 0.0


def _distance(value: Array, twins: tuple[Array, Array]) -> float:
    """How far the twins are from a value at most; infinite where only one of them is finite."""
    found = 0.0
    for twin in twins:
        a, b = np.asarray(value, np.float64), np.asarray(twin, np.float64)
        if a.shape != b.shape:
            return float("inf")
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not same.all():
            with np.errstate(invalid="ignore"):
                off = np.abs(a - b)[~same]
            found = max(found, float(np.where(np.isfinite(off), off, np.inf).max()))
    return found


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))


def _shown(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
