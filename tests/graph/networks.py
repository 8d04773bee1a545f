"""Networks as an importer writes them, channels first, and random graphs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Graph, Value

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class Network:
    """A builder with channels-first layers, each convolution and pool between two transposes."""

    def __init__(self, seed: int = 0) -> None:
        self.builder = Builder()
        self.random = np.random.default_rng(seed)

    def array(self, *shape: int) -> Array:
        return (self.random.standard_normal(shape) / 4).astype(np.float32)

    def input(self, *shape: int, name: str = "x") -> Value:
        return self.builder.input(name, shape, "f32")

    def constant(self, *shape: int) -> Value:
        return self.builder.constant(self.array(*shape))

    def number(self, value: float) -> Value:
        return self.builder.constant(np.float32(value))

    def op(self, name: str, *values: Value, **attributes: Any) -> Value:
        return self.builder.add(name, list(values), **attributes)

    def graph(self, *outputs: Value) -> Graph:
        for n, value in enumerate(outputs):
            self.builder.output(f"y{n}", value)
        return self.builder.graph()

    def sandwich(self, x: Value, layer: Callable[[Value], Value]) -> Value:
        return self.op("transpose", layer(self.op("transpose", x, order=TO_LAST)), order=TO_FIRST)

    def conv(self, x: Value, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1, bias: bool = False) -> Value:
        pad, own = kernel // 2, x.shape[1]
        attributes = {"stride": (stride, stride), "padding": ((pad, pad), (pad, pad)), "dilation": (1, 1)}

        def layer(t: Value) -> Value:
            if groups == own > 1:
                y = self.op("depthwise_conv", t, self.constant(kernel, kernel, channels), **attributes)
            else:
                y = self.op("conv", t, self.constant(kernel, kernel, own // groups, channels), groups=groups, **attributes)
            return self.op("add", y, self.constant(channels)) if bias else y

        return self.sandwich(x, layer)

    def batch_norm(self, x: Value) -> Value:
        channels = x.shape[1]
        return self.op("add", self.op("multiply", x, self.constant(channels, 1, 1)), self.constant(1, channels, 1, 1))

    def max_pool(self, x: Value) -> Value:
        window = {"kernel": (3, 3), "stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
        return self.sandwich(x, lambda t: self.op("max_pool", t, **window))

    def global_pool(self, x: Value) -> Value:
        return self.sandwich(x, lambda t: self.op("global_avg_pool", t))

    def dense(self, x: Value, columns: int) -> Value:
        """A product with a constant, the leading dimensions made one."""
        rows = x.elements // x.shape[-1]
        flat = self.op("matmul", self.op("reshape", x, shape=(rows, x.shape[-1])), self.constant(x.shape[-1], columns))
        return self.op("add", self.op("reshape", flat, shape=(*x.shape[:-1], columns)), self.constant(columns))

    def layer_norm(self, x: Value) -> Value:
        """Written out, as old exporters do."""
        off = self.op("subtract", x, self.op("reduce_mean", x, axes=(-1,), keepdims=True))
        variance = self.op("reduce_mean", self.op("power", off, self.number(2)), axes=(-1,), keepdims=True)
        normal = self.op("divide", off, self.op("sqrt", self.op("add", variance, self.number(1e-5))))
        return self.op("add", self.op("multiply", normal, self.constant(x.shape[-1])), self.constant(x.shape[-1]))

    def gelu(self, x: Value) -> Value:
        erf = self.op("erf", self.op("divide", x, self.number(2**0.5)))
        return self.op("multiply", self.op("multiply", x, self.op("add", erf, self.number(1))), self.number(0.5))


def residual() -> Graph:
    """A stem, a plain block, a block with a strided shortcut, and a classifier."""
    n = Network()
    y = n.max_pool(n.op("relu", n.batch_norm(n.conv(n.input(1, 3, 16, 16), 8, 7, 2))))
    for stride in (1, 2):
        z = n.op("relu", n.batch_norm(n.conv(y, 8)))
        z = n.op("relu", n.batch_norm(n.conv(z, 8, 3, stride)))
        z = n.batch_norm(n.conv(z, 8 * stride))
        y = n.op("relu", n.op("add", z, n.batch_norm(n.conv(y, 16, 1, 2)) if stride == 2 else y))
    return n.graph(n.dense(n.op("reshape", n.global_pool(y), shape=(1, 16)), 10))


def mobile() -> Graph:
    """Inverted bottleneck with squeeze and excitation, then a branch that is joined again at twice the size."""
    n = Network()
    y = n.op("hard_swish", n.batch_norm(n.conv(n.input(1, 3, 16, 16), 8, 3, 2)))
    y = n.op("clip", n.batch_norm(n.conv(y, 16)), low=0.0, high=6.0)
    y = n.op("clip", n.batch_norm(n.conv(y, 16, 3, groups=16)), low=0.0, high=6.0)
    s = n.op("relu", n.conv(n.global_pool(y), 4, bias=True))
    y = n.op("multiply", y, n.op("hard_sigmoid", n.conv(s, 16, bias=True)))
    y = n.batch_norm(n.conv(y, 8))
    a, b = n.conv(y, 8, 3), n.conv(y, 8, 3)
    y = n.op("concat", a, n.op("multiply", b, n.op("sigmoid", b)), axis=1)
    y = n.op("slice", n.op("repeat", y, times=(1, 1, 2, 2)), starts=(0, 4, 0, 0), sizes=(1, 12, 16, 16))
    y = n.conv(n.op("pad", n.conv(y, 8, 3), pairs=((0, 0), (0, 0), (1, 1), (1, 1))), 4)
    return n.graph(n.op("softmax", y, axis=1), n.op("reduce_mean", y, axes=(2, 3), keepdims=False))


def transformer(layers: int = 2, length: int = 12, width: int = 32, heads: int = 4) -> Graph:
    """Encoder layers with normalisation behind, its inputs (1, length, width) and a mask."""
    n = Network()
    x, mask = n.input(1, length, width), n.input(1, 1, 1, length, name="mask")
    split = (1, length, heads, width // heads)
    for _ in range(layers):
        orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        q, k, v = (n.op("transpose", n.op("reshape", n.dense(x, width), shape=split), order=o) for o in orders)
        scores = n.op("add", n.op("divide", n.op("matmul", q, k), n.number((width // heads) ** 0.5)), mask)
        mixed = n.op("transpose", n.op("matmul", n.op("softmax", scores, axis=-1), v), order=(0, 2, 1, 3))
        x = n.layer_norm(n.op("add", n.dense(n.op("reshape", mixed, shape=(1, length, width)), width), x))
        x = n.layer_norm(n.op("add", n.dense(n.gelu(n.dense(x, 2 * width)), width), x))
    return n.graph(x)


def patches() -> Graph:
    """A convolution whose pixels become rows, attend nothing, and become pixels again."""
    n = Network()
    y = n.conv(n.input(1, 3, 8, 8), 16, 3, 2, bias=True)
    rows = n.op("transpose", n.op("reshape", y, shape=(1, 16, 16)), order=(0, 2, 1))
    rows = n.op("add", rows, n.dense(n.layer_norm(rows), 16))
    back = n.op("reshape", n.op("transpose", rows, order=(0, 2, 1)), shape=(1, 16, 4, 4))
    return n.graph(n.conv(n.op("relu", back), 8, 3))


NETWORKS = {f.__name__: f for f in (residual, mobile, transformer, patches)}


def inputs(graph: Graph, seed: int = 1) -> dict[str, Array]:
    """Random inputs of a graph."""
    random = np.random.default_rng(seed)
    return {v.name: random.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}


# -- random graphs -------------------------------------------------------------------------------------------------------

_UNARY = ("relu", "sigmoid", "tanh", "exp", "absolute")
_BINARY = ("add", "multiply", "subtract", "maximum")


@st.composite
def graphs(draw: st.DrawFn, most: int = 10) -> Graph:
    """A DAG of up to `most` layers on a small tensor; some values leave it more than once, or are inputs."""
    n = Network(draw(st.integers(0, 1000)))
    values = [n.input(1, 4, 6, 6)]
    for _ in range(draw(st.integers(1, most))):
        x = draw(st.sampled_from(values[-4:]))
        made = _layer(draw, n, x, values)
        if made is not None and made.elements <= 4096:
            values.append(made)
    chosen = [values[-1], *draw(st.lists(st.sampled_from(values), max_size=2))]
    return n.graph(*chosen)


def _layer(draw: st.DrawFn, n: Network, x: Value, values: list[Value]) -> Value | None:
    kind = draw(
        st.sampled_from(
            ("unary", "binary", "constant", "transpose", "reshape", "conv", "pool", "reduce", "concat", "row", "cut", "dense")
        )
    )
    rank = len(x.shape)
    if kind == "unary":
        return n.op(draw(st.sampled_from(_UNARY)), n.op("clip", x, low=-2.0, high=2.0) if draw(st.booleans()) else n.op("tanh", x))
    if kind == "binary":
        y = draw(st.sampled_from([v for v in values if _broadcasts(v.shape, x.shape)]))
        pair = (x, y) if draw(st.booleans()) else (y, x)
        return n.op(draw(st.sampled_from(_BINARY)), *pair)
    if kind == "constant":
        shape = tuple(e if draw(st.booleans()) else 1 for e in x.shape[draw(st.integers(0, rank)) :])
        return n.op(draw(st.sampled_from(_BINARY)), *draw(st.permutations([x, n.constant(*shape)])))
    if kind == "transpose":
        order = draw(st.sampled_from([TO_LAST, TO_FIRST])) if rank == 4 else draw(st.permutations(range(rank)))
        return n.op("transpose", x, order=tuple(order))
    if kind == "reshape":
        return n.op("reshape", x, shape=draw(st.sampled_from(_shapes(x.shape))))
    if kind in ("conv", "pool"):
        if rank != 4 or x.shape[1] > 16:
            return None
        if kind == "pool":
            return n.max_pool(x)
        return n.conv(x, 4, draw(st.sampled_from((1, 3))), bias=draw(st.booleans()))
    if rank == 0:
        return None
    if kind == "reduce":
        axes = tuple(draw(st.sets(st.integers(0, rank - 1), min_size=1)))
        return n.op(draw(st.sampled_from(("reduce_mean", "reduce_max", "reduce_sum"))), x, axes=axes, keepdims=draw(st.booleans()))
    axis = draw(st.integers(0, rank - 1))
    if kind == "concat":
        fits = [
            v for v in values if len(v.shape) == rank and all(a == b for d, (a, b) in enumerate(zip(v.shape, x.shape)) if d != axis)
        ]
        return n.op("concat", x, draw(st.sampled_from(fits)), axis=axis)
    if kind == "row":
        return n.op("softmax", x, axis=axis)
    if kind == "cut":
        if draw(st.booleans()):
            return n.op("pad", x, pairs=tuple((0, 1) if d == axis else (0, 0) for d in range(rank)))
        starts = tuple(e // 2 if d == axis else 0 for d, e in enumerate(x.shape))
        return n.op("slice", x, starts=starts, sizes=tuple(e - s for e, s in zip(x.shape, starts)))
    return n.dense(x, 4)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b)))


def _shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Some shapes of as many elements: neighbours merged, a dimension split in two, ones inserted and left out."""
    found = [shape, (1, *shape), tuple(n for n in shape if n != 1)]
    for d, n in enumerate(shape):
        found += [(*shape[:d], k, n // k, *shape[d + 1 :]) for k in (2, 3) if n % k == 0]
    found += [(*shape[:d], a * b, *shape[d + 2 :]) for d, (a, b) in enumerate(itertools.pairwise(shape))]
    return [s for s in found if len(s) <= 5]
