"""Tasks of networks, whose keys name no function but a hash: what they compute, guessed from the shapes of their tensors.

TVM writes the hash of a computation and the shapes of its inputs and outputs. Where these allow few computations (convolutions of
blocked layouts with what follows them, dense layers, pooling, softmax), each is tried until the steps of the program can be
applied: they name every stage by its number and every extent that is split.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tensorsmith.lang import words as lang
from tensorsmith.lang.define import Tensor, placeholder, reduce_axis
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.common import at, compute_named
from tensorsmith.records.ansor.layers import added, dense, followed_by_relu, softmax

_AXES = ("n", "c", "h", "w", "cb")
_SMALLEST = -3.4028234663852886e38


def is_hash(name: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{32}", name) is not None


def of_shapes(shapes: Sequence[Any]) -> Iterator[list[Tensor]]:
    """The computations that tensors of these shapes may have, inputs first, the output last."""
    if not all(isinstance(s, list) and s and all(type(n) is int and 0 < n < 1 << 32 for n in s) for s in shapes) or len(shapes) < 2:
        return
    *inputs, output = (tuple(s) for s in shapes)
    ranks = [len(s) for s in inputs]
    if len(inputs) > 6:
        return
    if ranks[:2] == [5, 6] and len(output) == 5:
        yield from _with(_convolution(inputs[0], inputs[1], output), inputs[2:], output)
    elif ranks[:2] == [2, 2] and inputs[0][1] == inputs[1][1] and output == (inputs[0][0], inputs[1][0]):
        yield from _with(dense(inputs[0][0], inputs[0][1], inputs[1][0]), inputs[2:], output)
    elif ranks[0] == 5 and len(output) == 5 and output[2:4] == (1, 1) and inputs[0][2] > 1:
        yield from _with(_global_average(inputs[0]), inputs[1:], output)
    elif ranks[0] == 5 and len(output) == 5 and output[2] < inputs[0][2]:
        yield from _with(_max_pool(inputs[0], output), inputs[1:], output)
    elif len(inputs) == 1 and inputs[0] == output:
        yield softmax(*output)
        x = placeholder(output, name="data")
        yield [x, followed_by_relu(x)]


def _with(layer: list[Tensor], others: Sequence[tuple[int, ...]], output: tuple[int, ...]) -> Iterator[list[Tensor]]:
    """A layer and what follows it: each further input is added or multiplied, and relu may come last."""
    *inputs, y = layer
    if y.shape != output:
        return
    for words in itertools.product(("add", "mul"), repeat=len(others)):
        found, result = list(inputs), y
        for number, (word, shape) in enumerate(zip(words, others)):
            if len(shape) != len(output) or any(n not in (1, m) for n, m in zip(shape, output)):
                return
            found.append(placeholder(shape, name=f"other{number}"))
            result = _combined(result, found[-1], word, number)
        yield [*found, result]
        yield [*found, followed_by_relu(result)]


def _combined(y: Tensor, other: Tensor, word: str, number: int) -> Tensor:
    if word == "add":
        return added(y, other, f"added{number}")

    def body(i: tuple[Expr, ...]) -> Any:
        return y[i] * at(other, *(0 if mine == 1 < n else index for index, mine, n in zip(i, other.shape, y.shape)))

    return compute_named(y.shape, [f"i{d}" for d in range(len(y.shape))], body, f"scaled{number}")


def _convolution(data: tuple[int, ...], weights: tuple[int, ...], output: tuple[int, ...]) -> list[Tensor]:
    """Data N, C, H, W, c; weights O, C, KH, KW, c, o. A border only where the extents want one."""
    x, w = placeholder(data, name="data"), placeholder(weights, name="kernel")
    _, chunks, kh, kw, block, _ = weights
    if chunks != data[1] or block != data[4]:
        return [x, w, x]
    steps, border = zip(*(_window(n, k, m) for n, k, m in zip(data[2:4], (kh, kw), output[2:4])))
    pad = _padded(x, border, 0.0)
    rc, rh, rw = reduce_axis(chunks * block, "rc"), reduce_axis(kh, "rh"), reduce_axis(kw, "rw")

    def body(i: tuple[Expr, ...]) -> Any:
        n, c, h, v, o = i
        # one block of channels needs no division
        chunk, within = (0, rc) if chunks == 1 else (rc // block, rc % block)
        place = [(h * steps[0] if steps[0] > 1 else h) + rh, (v * steps[1] if steps[1] > 1 else v) + rw]
        return lang.sum(at(pad, n, chunk, *place, within) * at(w, c, chunk, rh, rw, within, o), axis=[rc, rh, rw])

    shape = (data[0], weights[0], *_extents(pad.shape[2:4], (kh, kw), steps), weights[5])
    return [x, w, compute_named(shape, _AXES, body, "conv")]


def _window(n: int, k: int, m: int) -> tuple[int, int]:
    """The step and the border on both sides that make m windows of k out of n elements."""
    for step in (1, 2, 4):
        for border in (k // 2, 0):
            if (n + 2 * border - k) // step + 1 == m:
                return step, border
    return 1, 0


def _extents(shape: Sequence[int], window: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    return tuple((n - k) // s + 1 for n, k, s in zip(shape, window, steps))


def _padded(x: Tensor, border: Sequence[int], fill: float) -> Tensor:
    if not any(border):
        return x
    (top, left), (h, w) = border, x.shape[2:4]

    def body(i: tuple[Expr, ...]) -> Any:
        inside = (i[2] >= top) & (i[2] < top + h) & (i[3] >= left) & (i[3] < left + w)
        return lang.select(inside, at(x, i[0], i[1], i[2] - top, i[3] - left, i[4]), fill)

    return compute_named((*x.shape[:2], h + 2 * top, w + 2 * left, x.shape[4]), _AXES, body, "pad")


def _max_pool(data: tuple[int, ...], output: tuple[int, ...]) -> list[Tensor]:
    """Over windows of 3 x 3 elements."""
    x = placeholder(data, name="data")
    steps, border = zip(*(_window(n, 3, m) for n, m in zip(data[2:4], output[2:4])))
    pad = _padded(x, border, _SMALLEST)
    rh, rw = reduce_axis(3, "rh"), reduce_axis(3, "rw")
    shape = (*data[:2], *_extents(pad.shape[2:4], (3, 3), steps), data[4])

    def body(i: tuple[Expr, ...]) -> Any:
        return lang.max(at(pad, i[0], i[1], i[2] * steps[0] + rh, i[3] * steps[1] + rw, i[4]), axis=[rh, rw])

    return [x, compute_named(shape, _AXES, body, "pool")]


def _global_average(data: tuple[int, ...]) -> list[Tensor]:
    x = placeholder(data, name="data")
    rh, rw = reduce_axis(data[2], "rh"), reduce_axis(data[3], "rw")
    shape = (*data[:2], 1, 1, data[4])
    total = compute_named(shape, _AXES, lambda i: lang.sum(at(x, i[0], i[1], i[2] + rh, i[3] + rw, i[4]), axis=[rh, rw]), "total")
    return [x, compute_named(shape, _AXES, lambda i: total[i] / float(data[2] * data[3]), "pool")]
