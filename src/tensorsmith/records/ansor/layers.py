"""Layer functions whose names stand in workload keys, as definitions of ours: those of published logs and of TVM's own tests.

Each takes the other entries of the key and gives tensors, inputs first. Data are N, C, spatial.., weights CO, CI, spatial.. A
padded copy is a stage of its own, as in TVM, also where the border is empty; only pooling leaves it out then.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang import words as lang
from tensorsmith.lang.define import Tensor, placeholder, reduce_axis, select
from tensorsmith.lang.dtypes import canonical
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.common import at, compute_named

Definition = Callable[..., Sequence[Tensor]]

MOST_ELEMENTS = 1 << 40
EPILOGUES = ("add", "add relu", "relu", "bias", "bias relu")  # that a layer may have; the key does not tell


def _type(x: object) -> str:
    return canonical(str(x))


def _sizes(*sizes: Any) -> tuple[int, ...]:
    if not all(type(n) is int and 0 < n <= MOST_ELEMENTS for n in sizes):
        raise UserError("extents are whole numbers above 0")
    return sizes


def matmul(m: Any, k: Any, n: Any, dtype: Any = "float32") -> list[Tensor]:
    """C[M, N] = A[M, K] B[K, N]; the second number is the reduction."""
    m, k, n = _sizes(m, k, n)
    a, b = placeholder((m, k), _type(dtype), "A"), placeholder((k, n), _type(dtype), "B")
    r = reduce_axis(k, "k")
    return [a, b, lang.compute((m, n), lambda i, j: lang.sum(a[i, r] * b[r, j], axis=r), "C")]


def matmul_of_tests(n: Any, m: Any, k: Any, dtype: Any = "float32") -> list[Tensor]:
    """That of TVM's tests: the reduction is last."""
    return matmul(n, k, m, dtype)


def dense(m: Any, k: Any, n: Any, dtype: Any = "float32") -> list[Tensor]:
    """C[M, N] = A[M, K] W[N, K]."""
    m, k, n = _sizes(m, k, n)
    a, b = placeholder((m, k), _type(dtype), "A"), placeholder((n, k), _type(dtype), "W")
    r = reduce_axis(k, "k")
    return [a, b, lang.compute((m, n), lambda i, j: lang.sum(a[i, r] * b[j, r], axis=r), "C")]


def dense_of_three(m: Any, n: Any, k: Any, dtype: Any = "float32") -> list[Tensor]:
    """The same with the reduction last."""
    return dense(m, k, n, dtype)


def batch_matmul_transposed(*given: Any) -> list[Tensor]:
    """(b, M, N, K): A of (b, M, K), B of (b, N, K)."""
    types = [x for x in given if isinstance(x, str)]
    batch, m, n, k = _sizes(*(x for x in given if not isinstance(x, str)))
    a, b = (placeholder((batch, rows, k), _type((*types, "float32")[0]), name) for rows, name in ((m, "A"), (n, "B")))
    r = reduce_axis(k, "k")
    return [a, b, lang.compute((batch, m, n), lambda g, i, j: lang.sum(a[g, i, r] * b[g, j, r], axis=r), "C")]


def batch_matmul(*given: Any) -> list[Tensor]:
    """(b, c, M, K, N) or (b, M, K, N): A of (b * c, M, K), B of (b * c, K, N)."""
    dtype = given[-1] if isinstance(given[-1], str) else "float32"
    *batches, m, k, n = _sizes(*(x for x in given if not isinstance(x, str)))
    batch = math.prod(batches)
    a, b = placeholder((batch, m, k), _type(dtype), "A"), placeholder((batch, k, n), _type(dtype), "B")
    r = reduce_axis(k, "k")
    return [a, b, lang.compute((batch, m, n), lambda g, i, j: lang.sum(a[g, i, r] * b[g, r, j], axis=r), "C")]


_SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def _padding(given: Any, window: Sequence[int]) -> list[tuple[int, int]]:
    """Rows before and after each dimension: "SAME" keeps the extent whatever the stride, "VALID" adds none."""
    if isinstance(given, str):
        if given.upper() not in ("SAME", "VALID"):
            raise UserError(f"padding is {given!r}; known are SAME and VALID")
        return [(k // 2, k - 1 - k // 2) if given.upper() == "SAME" else (0, 0) for k in window]
    each = list(given) if isinstance(given, list) else [given] * len(window)
    if not all(type(p) is int and 0 <= p < 1 << 20 for p in each) or len(each) not in (len(window), 2 * len(window)):
        raise UserError("padding is a whole number, one for each dimension, or two")
    return list(zip(each[: len(window)], each[-len(window) :]))


def _each(given: Any, rank: int) -> tuple[int, ...]:
    return _sizes(*(given if isinstance(given, list) else [given] * rank))[:rank]


def _padded(x: Tensor, pads: Sequence[tuple[int, int]], fill: float = 0.0, always: bool = True) -> Tensor:
    """The data with a border around its last dimensions; a stage of its own also where the border is empty."""
    if not always and not any(map(any, pads)):
        return x
    free = len(x.shape) - len(pads)
    shape = (*x.shape[:free], *(n + sum(p) for n, p in zip(x.shape[free:], pads)))

    def body(i: tuple[Expr, ...]) -> Any:
        inside = []
        for index, n, (before, after) in zip(i[free:], x.shape[free:], pads):
            inside += [index >= before] if before else []
            inside += [index < before + n] if after else []
        place = (*i[:free], *(index - before if before else index for index, (before, _) in zip(i[free:], pads)))
        return select(functools.reduce(lambda a, b: a & b, inside), x[place], fill) if inside else x[place]

    return compute_named(shape, ("n", "c", *_SPATIAL[len(pads)])[-len(shape) :], body, "pad")


def _extents(x: Tensor, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    return tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[-len(window) :], window, stride, dilation))


def _places(i: Sequence[Expr], taps: Sequence[Expr], stride: Sequence[int], dilation: Sequence[int]) -> list[Any]:
    return [(h * s if s > 1 else h) + (t * d if d > 1 else t) for h, t, s, d in zip(i, taps, stride, dilation)]


def _conv(x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any = 1, groups: int = 1) -> list[Tensor]:
    """Data N, C, spatial..; weights CO, CI / groups, spatial.."""
    window, rank = w.shape[2:], len(w.shape) - 2
    strides, dilations = _each(stride, rank), _each(dilation, rank)
    pad = _padded(x, _padding(padding, [d * (k - 1) + 1 for k, d in zip(window, dilations)]))
    out = (x.shape[0], w.shape[0], *_extents(pad, window, strides, dilations))
    rc = reduce_axis(w.shape[1], "rc")
    taps = [reduce_axis(k, f"r{s}") for k, s in zip(window, _SPATIAL[rank])]
    each = w.shape[0] // groups

    def body(i: tuple[Expr, ...]) -> Any:
        channel = rc if groups == 1 else (i[1] // each) * w.shape[1] + rc
        data = at(pad, i[0], channel, *_places(i[2:], taps, strides, dilations))
        return lang.sum(data * at(w, i[1], rc, *taps), axis=[rc, *taps])

    return [x, w, compute_named(out, ("n", "co", *_SPATIAL[rank]), body, "conv")]


def convolution(rank: int, *given: Any) -> list[Tensor]:
    """Either the shapes of data and weights, or N, CI, extents, CO, window, stride, padding."""
    if isinstance(given[0], list):
        shape, weights, *rest = given
        types = [x for x in rest if isinstance(x, str) and x.upper() not in ("SAME", "VALID")]
        stride, padding, dilation = [*(x for x in rest if x not in types), None, None, None][:3]
        dtype = types[0] if types else "float32"
        x, w = placeholder(_sizes(*shape), _type(dtype), "data"), placeholder(_sizes(*weights), _type(dtype), "kernel")
        return _conv(x, w, 1 if stride is None else stride, 1 if padding is None else padding, 1 if dilation is None else dilation)
    n, ci, *rest = given
    extents, co, window, rest = rest[:rank], rest[rank], rest[rank + 1 : 2 * rank + 1], rest[2 * rank + 1 :]
    stride, padding, dilation = [*rest, *(1, 0, 1)[len(rest) :]][:3]
    x, w = placeholder(_sizes(n, ci, *extents), name="data"), placeholder(_sizes(co, ci, *window), name="kernel")
    return _conv(x, w, stride, padding, dilation)


def square_convolution(rank: int, *given: Any) -> list[Tensor]:
    """As TVM's tests have it: N, extents, CI, CO, one number for the window, stride, padding, perhaps dilation."""
    n, *rest = given
    ci, co, kernel, *how = rest[rank:]
    return convolution(rank, n, ci, *rest[:rank], co, *[kernel] * rank, *how)


def square_depthwise(n: Any, h: Any, w: Any, c: Any, kernel: Any, stride: Any, padding: Any) -> list[Tensor]:
    """The same for one channel at a time."""
    return depthwise(n, c, h, w, kernel, kernel, stride, padding)


def depthwise(*given: Any) -> list[Tensor]:
    """N, C, H, W, window, stride, padding, with the multiplier before the window or left out."""
    n, c, h, w, *rest = given
    multiplier = rest.pop(0) if len(rest) > 4 and not isinstance(rest[3], str) else 1
    kh, kw, stride, padding = rest[:4]
    n, c, h, w, multiplier, kh, kw = _sizes(n, c, h, w, multiplier, kh, kw)
    if multiplier == c:  # the channels that come out of one input channel were written as those of all
        multiplier = 1
    x, weights = placeholder((n, c, h, w), name="data"), placeholder((c, multiplier, kh, kw), name="kernel")
    strides = _each(stride, 2)
    pad = _padded(x, _padding(padding, [kh, kw]))
    ry, rx = reduce_axis(kh, "rh"), reduce_axis(kw, "rw")

    def body(i: tuple[Expr, ...]) -> Any:
        channel = i[1] if multiplier == 1 else i[1] // multiplier
        which = 0 if multiplier == 1 else i[1] % multiplier
        data = at(pad, i[0], channel, *_places(i[2:], [ry, rx], strides, [1, 1]))
        return lang.sum(data * weights[channel, which, ry, rx], [ry, rx])

    out = (n, c * multiplier, *_extents(pad, [kh, kw], strides, [1, 1]))
    return [x, weights, compute_named(out, ("n", "c", "h", "w"), body, "depthwise")]


def transposed(*given: Any) -> list[Tensor]:
    """N, CI, H, W, CO, KH, KW, stride, padding: the data spread apart, padded, then a convolution with the weights turned over."""
    n, ci, h, w, co, kh, kw, stride, padding, *_ = given
    n, ci, h, w, co, kh, kw = _sizes(n, ci, h, w, co, kh, kw)
    sy, sx = _each(stride, 2)
    x, weights = placeholder((n, ci, h, w), name="data"), placeholder((ci, co, kh, kw), name="kernel")
    (top, bottom), (left, right) = _padding(padding, [kh, kw])
    before = (kh - 1 - top, kw - 1 - left)
    after = (kh - 1 - bottom, kw - 1 - right)
    shape = (n, ci, (h - 1) * sy + 1 + before[0] + after[0], (w - 1) * sx + 1 + before[1] + after[1])

    def spread(b: Expr, c: Expr, y: Expr, z: Expr) -> Any:
        u, v = y - before[0], z - before[1]
        inside = (u >= 0) & (v >= 0) & (u < (h - 1) * sy + 1) & (v < (w - 1) * sx + 1)
        for place, step in ((u, sy), (v, sx)):
            inside = inside & (place % step == 0) if step > 1 else inside
        return select(inside, x[b, c, u // sy if sy > 1 else u, v // sx if sx > 1 else v], 0.0)

    pad = lang.compute(shape, spread, "pad")
    rc, ry, rx = reduce_axis(ci, "rc"), reduce_axis(kh, "rh"), reduce_axis(kw, "rw")
    out = (n, co, shape[2] - kh + 1, shape[3] - kw + 1)
    conv = lang.compute(
        out,
        lambda b, c, y, z: lang.sum(pad[b, rc, y + ry, z + rx] * weights[rc, c, kh - 1 - ry, kw - 1 - rx], axis=[rc, ry, rx]),
        "conv",
    )
    return [x, weights, conv]


def pool(kind: Any, *given: Any) -> list[Tensor]:
    """N, C, H, W, window, stride, padding; an average counts the padding."""
    n, c, h, w, kh, kw, stride, padding = given
    n, c, h, w, kh, kw = _sizes(n, c, h, w, kh, kw)
    return _windows(kind, placeholder((n, c, h, w), name="data"), (kh, kw), _each(stride, 2), _padding(padding, [kh, kw]))


def square_pool(kind: Any, n: Any, c: Any, h: Any, w: Any, kernel: Any, stride: Any, padding: Any) -> list[Tensor]:
    """The same with one number for the window."""
    return pool(kind, n, c, h, w, kernel, kernel, stride, padding)


def _windows(kind: Any, x: Tensor, window: tuple[int, ...], strides: tuple[int, ...], pads: list[tuple[int, int]]) -> list[Tensor]:
    if kind not in ("avg", "max"):
        raise UserError(f"pooling is avg or max, got {kind!r}")
    pad = _padded(x, pads, 0.0 if kind == "avg" else -3.4028234663852886e38, always=False)
    out = (*x.shape[:2], *_extents(pad, window, strides, (1, 1)))
    taps = [reduce_axis(k, f"r{s}") for k, s in zip(window, _SPATIAL[len(window)])]
    reduce: Any = lang.sum if kind == "avg" else lang.max
    axes = ("n", "c", *_SPATIAL[len(window)])

    def body(i: tuple[Expr, ...]) -> Any:
        return reduce(at(pad, *i[:2], *_places(i[2:], taps, strides, [1] * len(taps))), axis=taps)

    if kind == "max":
        return [x, compute_named(out, axes, body, "pool")]
    total = compute_named(out, axes, body, "total")
    return [x, compute_named(out, axes, lambda i: total[i] / float(math.prod(window)), "pool")]


def pool2d(shape: Any, dtype: Any = "float32") -> list[Tensor]:
    """An average over windows of one element at every second place."""
    return _windows("avg", placeholder(_sizes(*shape), _type(dtype), "data"), (1, 1), (2, 2), [(0, 0), (0, 0)])


def max_pool_of_tests(n: Any, h: Any, w: Any, ci: Any, padding: Any) -> list[Tensor]:
    return _windows("max", placeholder(_sizes(n, ci, h, w), name="data"), (2, 2), (1, 1), _padding(padding, [2, 2]))


def reduction(shape: Any, axis: Any, keep: Any = False, kind: str = "sum") -> list[Tensor]:
    """The sum over one axis or some."""
    shape = _sizes(*shape)
    over = sorted({a % len(shape) for a in (axis if isinstance(axis, list) else [axis])})
    left = [d for d in range(len(shape)) if d not in over]
    out = [1 if d in over else n for d, n in enumerate(shape)] if keep else [shape[d] for d in left]
    x = placeholder(shape, name="data")
    axes = {d: reduce_axis(shape[d], f"k{d}") for d in over}

    def body(i: tuple[Expr, ...]) -> Any:
        spatial = iter(i[d] for d in left) if keep else iter(i)
        place = [axes[d] if d in over else next(spatial) for d in range(len(shape))]
        return getattr(lang, kind)(at(x, *place), axis=list(axes.values()))

    return [x, compute_named(out, [f"i{d}" for d in range(len(out))], body, "total")]


def least(n: Any, m: Any) -> list[Tensor]:
    """The least of each row."""
    return reduction([n, m], 1, False, "min")


def elementwise(*given: Any) -> list[Tensor]:
    """max(x, 0)"""
    shape = given[0] if isinstance(given[0], list) else [x for x in given if not isinstance(x, str)]
    dtype = next((x for x in given if isinstance(x, str)), "float32")
    x = placeholder(_sizes(*shape), _type(dtype), "data")
    return [x, compute_named(x.shape, [f"i{d}" for d in range(len(x.shape))], lambda i: lang.maximum(x[i], 0.0), "relu")]


def of_two(word: str, *given: Any) -> list[Tensor]:
    """The sum or the product of two tensors of a shape."""
    shape = given[0] if isinstance(given[0], list) else [x for x in given if not isinstance(x, str)]
    a, b = placeholder(_sizes(*shape), name="A"), placeholder(_sizes(*shape), name="B")
    body = (lambda i: a[i] + b[i]) if word == "add" else (lambda i: a[i] * b[i])
    return [a, b, compute_named(a.shape, [f"i{d}" for d in range(len(a.shape))], body, word)]


def softmax(*given: Any) -> list[Tensor]:
    """Over the last axis: maximum, exponentials, their sum, quotient."""
    shape = _sizes(*given)
    x, *lead = placeholder(shape, name="A"), *range(len(shape) - 1)
    names = [f"i{d}" for d in range(len(shape))]
    k, s = reduce_axis(shape[-1], "k"), reduce_axis(shape[-1], "k")
    top = compute_named(shape[:-1], names[:-1], lambda i: lang.max(at(x, *i, k), axis=k), "largest")
    e = compute_named(shape, names, lambda i: lang.exp(x[i] - top[tuple(i[d] for d in lead)]), "e")
    total = compute_named(shape[:-1], names[:-1], lambda i: lang.sum(at(e, *i, s), axis=s), "total")
    return [x, compute_named(shape, names, lambda i: e[i] / total[tuple(i[d] for d in lead)], "softmax")]


def conv_of_tests(*given: Any) -> list[Tensor]:
    """N, H, W, CI, CO, window, stride, padding, dilation: then a bias, a scale and an offset for each channel, and relu."""
    n, h, w, ci, co, kernel, stride, padding, *rest = given
    dilation = rest[0] if rest else 1
    x = placeholder(_sizes(n, ci, h, w), name="data")
    weights = placeholder(_sizes(co, ci, kernel, kernel), name="kernel")
    bias, scale, offset = (placeholder((co, 1, 1), name=word) for word in ("bias", "scale", "offset"))
    y = _conv(x, weights, stride, padding, dilation)[-1]
    axes = ("n", "co", "h", "w")
    for word, with_, op in (("added", bias, "add"), ("scaled", scale, "mul"), ("moved", offset, "add")):
        y = _channelwise(y, with_, op, word, axes)
    return [x, weights, bias, scale, offset, compute_named(y.shape, axes, lambda i: lang.maximum(y[i], 0.0), "relu")]


def _channelwise(y: Tensor, other: Tensor, op: str, name: str, axes: Sequence[str]) -> Tensor:
    return compute_named(y.shape, axes, lambda i: y[i] + other[i[1], 0, 0] if op == "add" else y[i] * other[i[1], 0, 0], name)


def double_matmul(n: Any) -> list[Tensor]:
    """D = A B, E = D C, all of N x N."""
    a, b, c = (placeholder(_sizes(n, n), name=x) for x in "ABC")
    k, r = reduce_axis(n, "k"), reduce_axis(n, "k")
    d = lang.compute((n, n), lambda i, j: lang.sum(a[i, k] * b[k, j], axis=k), "D")
    return [a, b, c, lang.compute((n, n), lambda i, j: lang.sum(d[i, r] * c[r, j], axis=r), "E")]


def followed(definition: Definition, epilogue: str, *given: Any) -> list[Tensor]:
    """A layer with an addition behind it, of a tensor of its shape or of one number for each channel, and perhaps relu."""
    *inputs, y = definition(*given)
    for word in epilogue.split():
        if word == "relu":
            y = followed_by_relu(y)
            continue
        along = 1 if len(y.shape) > 2 else len(y.shape) - 1
        shape = y.shape if word == "add" else tuple(n if d == along else 1 for d, n in enumerate(y.shape))
        inputs.append(placeholder(shape, y.dtype, "other"))
        y = added(y, inputs[-1])
    return [*inputs, y]


def followed_by_relu(y: Tensor) -> Tensor:
    return compute_named(y.shape, [f"i{d}" for d in range(len(y.shape))], lambda i: lang.maximum(y[i], 0.0), "relu")


def added(y: Tensor, other: Tensor, name: str = "added") -> Tensor:
    """A sum; a tensor of one element along an axis is the same all along it."""

    def body(i: tuple[Expr, ...]) -> Any:
        return y[i] + at(other, *(0 if mine == 1 < n else index for index, mine, n in zip(i, other.shape, y.shape)))

    return compute_named(y.shape, [f"i{d}" for d in range(len(y.shape))], body, name)
