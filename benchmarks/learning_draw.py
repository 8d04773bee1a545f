"""Workloads drawn from a seed: the catalogue's operators at random shapes, and small random DAGs like the groups of networks.

They are what a cost model learns from (`collect.py`). Sizes are those that networks have, small enough to be measured in a moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

from tensorsmith.lang.define import Tensor, placeholder
from tensorsmith.lang.define import workload as to_workload
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue, conv, elementwise, linalg, norm, pool, reduce

MOST_FLOPS = 4e8  # of a drawn workload: some milliseconds
MOST_BYTES = 48 << 20

_IMAGES = (4, 7, 8, 10, 13, 14, 16, 20, 26, 28, 32, 40, 56, 64, 80, 112)
_CHANNELS = (3, 8, 12, 16, 24, 32, 40, 48, 64, 96, 112, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
_LENGTHS = (16, 32, 49, 64, 77, 100, 128, 160, 197, 256, 384, 512, 768, 1024, 2048)
_BATCHES = (1, 1, 1, 1, 2, 4, 8, 16)
_STEPS = ("bias", "scale", "relu", "gelu", "silu", "clip", "hard_swish", "add", "multiply")


def shape(operator: str, rng: Random) -> catalogue.Shape:
    """A shape of one of the catalogue's operators, as its `Case` has it."""
    n, size, ci, co = rng.choice(_BATCHES), rng.choice(_IMAGES), rng.choice(_CHANNELS), rng.choice(_CHANNELS)
    k, stride = rng.choice((1, 1, 3, 3, 3, 5, 7)), rng.choice((1, 1, 1, 2))
    pad = k // 2
    if operator == "C1D":
        return (n, rng.choice(_LENGTHS), ci, co, k, stride, pad)
    if operator == "C3D":
        return (1, rng.choice((4, 8, 16)), size, size, ci, co, k, stride, pad)
    if operator == "GMM":
        return (n, *(rng.choice(_LENGTHS) for _ in range(3)))
    if operator == "GRP":
        groups = rng.choice((2, 4, 8, 16, 32))
        return (n, size, size, _multiple(ci, groups), _multiple(co, groups), k, stride, pad, 1, groups)
    if operator == "DIL":
        return (n, size, size, ci, co, 3, stride, 2, 2)
    if operator == "DEP":
        k = rng.choice((3, 3, 5, 7))
        return (n, size, size, ci, k, stride, k // 2)
    if operator == "T2D":
        return (n, rng.choice((4, 8, 16, 32)), rng.choice((4, 8, 16, 32)), ci, co, rng.choice((2, 4)), 2, rng.choice((0, 1)))
    if operator == "CAP":
        return (n, rng.choice((8, 16)), rng.choice((8, 16)), rng.choice((8, 16, 32)), rng.choice((8, 16, 32)), 3, stride, 1)
    if operator == "NRM":
        return (n, rng.choice(_LENGTHS), rng.choice(_LENGTHS))
    if operator == "TBS":
        return (
            rng.choice((1, 1, 2, 4)),
            rng.choice((49, 64, 77, 128, 197, 256)),
            rng.choice((4, 8, 12, 16)),
            rng.choice((32, 64, 128)),
        )
    return (n, size, size, ci, co, k, stride, pad)  # C2D, ConvLayer


def _multiple(channels: int, groups: int) -> int:
    return max(1, channels // groups) * groups


def at_random_shape(rng: Random, most_flops: float = MOST_FLOPS) -> Workload:
    """An operator of the catalogue at a random shape."""
    builders = {case.operator: case.build for case in catalogue.cases(1).values()}
    while True:
        operator = rng.choice(list(builders))
        made = to_workload(builders[operator](*shape(operator, rng)))
        if is_small(made, most_flops):
            return made


def is_small(workload: Workload, most_flops: float = MOST_FLOPS) -> bool:
    total = sum(b.bytes for b in workload.buffers.values())
    empty = any(a.extent < 1 for s in workload.stages for a in s.all_axes)
    return not empty and flops(workload) <= most_flops and total <= MOST_BYTES


class _Drawing:
    """Tensors of a DAG that grows."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.inputs: list[Tensor] = []

    def input(self, shape: tuple[int, ...], constant: bool = False) -> Tensor:
        made = placeholder(shape, name=f"in{len(self.inputs)}", constant=constant)
        self.inputs.append(made)
        return made

    def root(self) -> Tensor:
        """What a group of a network begins with."""
        rng = self.rng
        n, size, channels = rng.choice(_BATCHES), rng.choice(_IMAGES), rng.choice(_CHANNELS)
        kind = rng.choice(("conv", "conv", "conv", "depthwise", "dense", "dense", "product", "image", "rows", "pool"))
        if kind in ("conv", "depthwise", "image", "pool"):
            x = self.input((n, size, size, channels))
            if kind == "image":
                return x
            if kind == "pool":
                return rng.choice((pool.max_pool, pool.avg_pool))(x, kernel=3, stride=2, padding=1)
            k = rng.choice((1, 1, 3, 3, 5)) if kind == "conv" else rng.choice((3, 3, 5))
            if kind == "depthwise":
                return conv.depthwise_conv2d(x, self.input((k, k, channels), True), rng.choice((1, 1, 2)), k // 2)
            weight = self.input((k, k, channels, rng.choice(_CHANNELS)), True)
            return conv.conv2d(x, weight, rng.choice((1, 1, 2)), k // 2)
        rows, columns = rng.choice((1, 1, 16, *_LENGTHS)), rng.choice(_LENGTHS)
        if kind == "dense":
            return linalg.dense(self.input((rows, columns)), self.input((columns, rng.choice(_LENGTHS)), True))
        if kind == "product":
            heads, inner = rng.choice((4, 8, 12)), rng.choice((32, 64))
            return linalg.batch_matmul(self.input((heads, rows, inner)), self.input((heads, inner, columns)))
        return self.input((rows, columns))

    def steps(self, x: Tensor, count: int) -> Tensor:
        """Some elementwise operators on top, no two alike."""
        for kind in self.rng.sample(_STEPS, count):
            x = self._step(x, kind)
        return x

    def _step(self, x: Tensor, kind: str) -> Tensor:
        channels = x.shape[-1:]
        choices: dict[str, Callable[[], Tensor]] = {
            "bias": lambda: elementwise.bias_add(x, self.input(channels, True)),
            "scale": lambda: norm.batch_norm(x, self.input(channels, True), self.input(channels, True)),
            "relu": lambda: elementwise.relu(x),
            "gelu": lambda: elementwise.gelu(x),
            "silu": lambda: elementwise.silu(x),
            "clip": lambda: elementwise.clip(x, 0.0, 6.0),
            "hard_swish": lambda: elementwise.hard_swish(x),
            "add": lambda: elementwise.add(x, self.input(x.shape)),
            "multiply": lambda: elementwise.multiply(x, self.input(x.shape)),
        }
        return choices[kind]()

    def last(self, x: Tensor) -> Tensor:
        """What a group may end with."""
        kind = self.rng.choice(("none", "none", "none", "softmax", "layer_norm", "mean", "pool"))
        if kind == "softmax":
            return norm.softmax(x)
        if kind == "layer_norm":
            return norm.layer_norm(x, self.input(x.shape[-1:], True), self.input(x.shape[-1:], True))
        if kind == "mean":
            return reduce.mean(x, axes=tuple(range(1, len(x.shape) - 1)) or (len(x.shape) - 1,))
        if kind == "pool" and len(x.shape) == 4 and min(x.shape[1:3]) >= 4:
            return pool.max_pool(x, kernel=2, stride=2, name="smaller")
        return x


def dag(rng: Random, most_flops: float = MOST_FLOPS) -> Workload:
    """A random group: a root, some elementwise operators, perhaps a norm, a reduction or a pooling at the end."""
    while True:
        drawing = _Drawing(rng)
        x = drawing.last(drawing.steps(drawing.root(), rng.choice((0, 1, 1, 2, 2, 3, 4))))
        if any(x is one for one in drawing.inputs) or math.prod(x.shape) == 0:
            continue
        made = to_workload([*drawing.inputs, x])
        if is_small(made, most_flops):
            return made


def drawn(seed: int, most_flops: float = MOST_FLOPS) -> Iterator[tuple[str, Workload]]:
    """Workloads without end, each with what it is, an operator and a DAG in turns; the same for the same seed."""
    rng = Random(seed)
    while True:
        yield "shape", at_random_shape(rng, most_flops)
        yield "dag", dag(rng, most_flops)
