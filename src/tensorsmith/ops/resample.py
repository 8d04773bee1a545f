"""Reading an image between its elements: resizing by tables, repeating elements, sampling at computed places.

Resizing is linear and separable: along one dimension every element of the result is a sum of a few elements (taps), whose places
and weights depend on the mode and on the position alone. They come as two tables, so one definition serves all modes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, select
from tensorsmith.lang.dtypes import is_float
from tensorsmith.lang.expr import Expr, ExprLike, wrap
from tensorsmith.ops.common import SPATIAL, at, check_rank, compute_named, normal_axis
from tensorsmith.ops.elementwise import saturated


def repeat(x: Tensor, times: Sequence[int], name: str = "repeat") -> Tensor:
    """Every element `times[d]` times along dimension d, as np.repeat does."""
    if len(times) != len(x.shape) or any(t < 1 for t in times):
        raise UserError(f"{name}: expected {len(x.shape)} numbers of at least 1 for {x.name} {list(x.shape)}, got {list(times)}")
    shape = [n * t for n, t in zip(x.shape, times)]
    return compute(shape, lambda *i: at(x, *(e // t if t > 1 else e for e, t in zip(i, times))), name=name)


def spread(x: Tensor, steps: Sequence[int], name: str = "spread") -> Tensor:
    """The elements of x steps[d] apart along dimension d, zeros between them."""
    if len(steps) != len(x.shape) or any(s < 1 for s in steps):
        raise UserError(f"{name}: expected {len(x.shape)} numbers of at least 1 for {x.name} {list(x.shape)}, got {list(steps)}")
    shape = [(n - 1) * s + 1 for n, s in zip(x.shape, steps)]

    def body(*i: Expr) -> Expr:
        there = [define.equal(e % s, 0) for e, s in zip(i, steps) if s > 1]
        element = at(x, *(e // s if s > 1 else e for e, s in zip(i, steps)))
        return select(functools.reduce(lambda a, b: a & b, there), element, 0) if there else element

    return compute(shape, body, name=name)


def resample(
    x: Tensor,
    places: Tensor,
    weights: Tensor,
    outside: Tensor | None = None,
    *,
    axis: int,
    dtype: str | None = None,
    name: str = "resample",
) -> Tensor:
    """Element h along `axis` is the sum over t of weights[h, t] * x[places[h, t]], plus outside[h].

    The result is of type `dtype` (that of x by default); an integer one is rounded to the nearest and limited to its range.
    """
    d = normal_axis(axis, len(x.shape), name)
    check_rank(places, 2, name, "(elements of the result, taps)")
    if weights.shape != places.shape or (outside is not None and outside.shape != places.shape[:1]):
        raise UserError(f"{name}: places {list(places.shape)} and weights {list(weights.shape)} must have the same shape")
    count, taps = places.shape
    target = dtype or x.dtype

    def body(*i: Expr) -> Expr:
        terms = []
        for t in range(taps):
            element = at(x, *i[:d], places[i[d], t], *i[d + 1 :])
            terms.append(define.cast(weights.dtype, element) * weights[i[d], t])
        total = functools.reduce(lambda a, b: a + b, terms)
        if outside is not None:
            total = total + outside[i[d]]
        if target == total.dtype:
            return total
        return define.cast(target, total) if is_float(target) else saturated(target, define.round(total))

    return compute((*x.shape[:d], count, *x.shape[d + 1 :]), body, name=name)


MODES = ("nearest", "linear", "cubic")
BORDERS = ("zeros", "border", "reflection")

_CUBIC = -0.75  # the free coefficient of the cubic kernel, as everywhere


def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "linear", border: str = "zeros", align_corners: bool = False, name: str = "grid_sample"
) -> Tensor:
    """x (N, spatial.., C) at the places of grid (N, spatial'.., D), which run from -1 to 1 and name the last dimension first.

    `border` says what is read beyond the edges. With `align_corners`, -1 and 1 are the centres of the outermost elements, else the
    outer edges of them.
    """
    rank = len(x.shape) - 2
    if rank not in SPATIAL or len(grid.shape) != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise UserError(
            f"{name}: {x.name} {list(x.shape)} needs a grid of [{x.shape[0]}, {rank} dimensions, {rank}], not {list(grid.shape)}"
        )
    if mode not in MODES or border not in BORDERS:
        raise UserError(f"{name}: mode {mode!r} and border {border!r}; known are {', '.join(MODES)} and {', '.join(BORDERS)}")
    extents = x.shape[1:-1]
    low, high = (0.0, -1.0) if align_corners else (-0.5, -0.5)

    def coordinate(d: int) -> Tensor:
        """Where each element is read along spatial dimension d."""

        def body(i: tuple[Expr, ...]) -> Expr:
            given, n = at(grid, *i, rank - 1 - d), extents[d]
            place = (given + 1.0) * (0.5 * (n - 1)) if align_corners else ((given + 1.0) * float(n) - 1.0) * 0.5
            if mode == "nearest":
                place = define.round(place)
            if mode == "cubic":  # the elements read are kept inside one by one, as PyTorch does
                return place
            if border == "border":
                return define.minimum(define.maximum(place, 0.0), float(n - 1))
            return _reflected(place, low, n + high) if border == "reflection" else place

        return compute_named(grid.shape[:-1], ("n", *SPATIAL[rank]), body, f"{name}_{SPATIAL[rank][d]}")

    coordinates = [coordinate(d) for d in range(rank)]

    def body(i: tuple[Expr, ...]) -> Expr:
        places = [c[i[:-1]] for c in coordinates]
        options = [_taps(mode, p) for p in places]
        terms = []
        for choice in itertools.product(*options):
            indices: list[ExprLike] = []
            inside: list[Expr] = []
            for (place, _), n in zip(choice, extents):
                inside += [place >= 0.0, place <= float(n - 1)]
                kept = _reflected(place, low, n + high) if border == "reflection" else place
                indices.append(define.cast("i64", define.minimum(define.maximum(kept, 0.0), float(n - 1))))
            element = at(x, i[0], *indices, i[-1])
            if border == "zeros":
                element = select(functools.reduce(lambda a, b: a & b, inside), element, wrap(0, x.dtype))
            factors = [w for _, w in choice if w is not None]
            terms.append(functools.reduce(lambda a, b: a * define.cast(x.dtype, b), factors, element))
        return functools.reduce(lambda a, b: a + b, terms)

    return compute_named((*grid.shape[:-1], x.shape[-1]), ("n", *SPATIAL[rank], "c"), body, name)


def _taps(mode: str, place: Expr) -> list[tuple[Expr, Expr | None]]:
    """The elements read along one dimension, as whole numbers in floats, and the weight of each; None is 1."""
    if mode == "nearest":
        return [(place, None)]
    if mode == "linear":
        return list(linear_taps(place))
    first = define.floor(place)
    part = place - first
    return [(first + float(n), _cubic(part - float(n))) for n in (-1, 0, 1, 2)]


def linear_taps(place: Expr) -> list[tuple[Expr, Expr]]:
    """The two elements around a place, as whole numbers in floats, and the weight of each."""
    first = define.floor(place)
    part = place - first
    return [(first, 1.0 - part), (first + 1.0, part)]


def _cubic(distance: Expr) -> Expr:
    """Keys' kernel at a distance below 2."""
    a, x = _CUBIC, define.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1.0
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return select(x <= 1.0, near, far)


def _reflected(place: Expr, low: float, high: float) -> Expr:
    """Thrown back at both ends until it is between them."""
    span = high - low
    if span <= 0:
        return wrap(low, place.dtype)
    away = define.abs(place - low)
    turns = define.floor(away * (1 / span))
    rest = away - turns * span
    odd = turns - define.floor(turns * 0.5) * 2.0
    return select(define.equal(odd, 0.0), rest + low, high - rest)
