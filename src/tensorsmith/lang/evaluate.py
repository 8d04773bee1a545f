"""The NumPy reference evaluator: what a workload means, and the first oracle of every test.

A stage is evaluated chunk by chunk over its axes so that memory stays bounded. Inside a chunk every expression is one
NumPy operation on arrays with one dimension per axis, of size 1 where the expression does not use the axis:

    A[i, k] * B[k, j]  over i<4, j<5, k<6   ->   a (4, 1, 6) view of A  times  a (1, 5, 6) view of B

A sum of a product, which is every matmul and convolution, becomes one batched matmul of the two factors instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tensorsmith.elements import kind_of
from tensorsmith.errors import InternalError, OutOfMemory, UserError
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import Array, converted, dtype
from tensorsmith.lang.expr import Binary, Bitcast, Cast, Const, Expr, Load, Select, Unary, Var, uses, variables
from tensorsmith.lang.workload import Stage, Workload

Chunk = tuple[tuple[int, int], ...]  # per axis of the stage, first and one past the last

_LIMIT = 1 << 20  # elements of one chunk; its temporaries then take some tens of megabytes
_PRODUCT_LIMIT = 1 << 22  # elements of both factors and the result of one chunk of a sum of products


def evaluate(workload: Workload, inputs: Mapping[str, Array], *, precise: bool = False) -> dict[str, Array]:
    """Every stage's result by name.

    With `precise`, f16, bf16 and f32 stages are computed in f64 and rounded to their own type once, at the end of the stage:
    what generated code is compared with, up to a tolerance. Otherwise every operation rounds to its own type.
    """
    arrays: dict[str, Array] = {}
    for buffer in workload.inputs:
        if buffer.name not in inputs:
            raise UserError(f"input {buffer.name} is missing; needed are {', '.join(b.name for b in workload.inputs)}")
        array = np.asarray(inputs[buffer.name])
        if array.shape != buffer.shape or array.dtype != dtype(buffer.dtype).numpy:
            raise UserError(
                f"input {buffer.name} is {array.dtype}{list(array.shape)}, not {dtype(buffer.dtype).numpy}{list(buffer.shape)}"
            )
        arrays[buffer.name] = array
    with np.errstate(all="ignore"):
        for stage in workload.stages:
            arrays[stage.name] = _stage(stage, arrays, precise)
    return {stage.name: arrays[stage.name] for stage in workload.stages}


def identity(reduction: str, name: str) -> float | int:
    """The result of reducing nothing: 0, 1, or the lowest or highest value of the type."""
    if reduction in ("sum", "prod"):
        return 0 if reduction == "sum" else 1
    facts = dtype(name)
    if facts.kind == "f":
        return -math.inf if reduction == "max" else math.inf
    limits = np.iinfo(facts.numpy)
    return int(limits.min if reduction == "max" else limits.max)


def _stage(stage: Stage, arrays: Mapping[str, Array], precise: bool) -> Array:
    kind = _computed_in(stage.dtype, precise)
    held = kind if stage.reduction else dtype(stage.dtype).numpy
    try:
        result = np.empty(stage.shape, held)
    except MemoryError:
        raise OutOfMemory(f"stage {stage.name} {stage.dtype}{list(stage.shape)}", math.prod(stage.shape) * held.itemsize) from None
    if stage.reduction:
        result[...] = identity(stage.reduction, stage.dtype)
    if any(a.extent == 0 for a in stage.all_axes):
        return converted(result, stage.dtype)
    rank = len(stage.axes)
    body = stage.body
    if stage.reduction == "sum" and isinstance(body, Binary) and body.op == "mul":
        for chunk in _chunks(stage, _product_size(stage, body), _PRODUCT_LIMIT):
            part = _part(result, chunk)
            scope = _Scope(stage, arrays, precise, chunk)
            part += _sum_of_product(scope.value(body.a), scope.value(body.b), chunk, rank)
    else:
        for chunk in _chunks(stage, math.prod, _LIMIT):
            part = _part(result, chunk)
            value = _Scope(stage, arrays, precise, chunk).value(body)
            if stage.reduction is None:
                part[...] = converted(value, stage.dtype)
            else:
                value = np.broadcast_to(value, [high - low for low, high in chunk])
                combine = _REDUCTIONS[stage.reduction]
                reduced = combine.reduce(value, axis=tuple(range(rank, value.ndim)), dtype=kind)
                part[...] = combine(part, reduced)
    return converted(result, stage.dtype)


def _part(array: Array, chunk: Chunk) -> Array:
    """The view of a stage's result that a chunk computes."""
    where: tuple[slice | EllipsisType, ...] = (*(slice(*span) for span in chunk[: array.ndim]), ...)
    return array[where]  # the ellipsis makes a view even of an array without dimensions


_REDUCTIONS: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _chunks(stage: Stage, size: Callable[[list[int]], int], limit: int) -> Iterator[Chunk]:
    """Chunks that cover the stage's axes; `size` of the extents of each is at most `limit`, if any split allows it."""
    steps = [a.extent for a in stage.all_axes]
    while size(steps) > limit and any(s > 1 for s in steps):
        halved = [[*steps[:d], (s + 1) // 2, *steps[d + 1 :]] for d, s in enumerate(steps) if s > 1]
        steps = min(halved, key=size)
    spans = [[(low, min(low + step, a.extent)) for low in range(0, a.extent, step)] for a, step in zip(stage.all_axes, steps)]
    return iter(itertools.product(*spans))


def _product_size(stage: Stage, product: Binary) -> Callable[[list[int]], int]:
    used = [
        [d for d, a in enumerate(stage.all_axes) if a.name in names]
        for names in (variables(product.a), variables(product.b), {a.name for a in stage.axes})
    ]
    return lambda steps: sum(math.prod(steps[d] for d in dims) for dims in used)


def _sum_of_product(a: Array, b: Array, chunk: Chunk, rank: int) -> Array:
    """sum(a * b) over the dimensions from `rank` on, as a batched matmul.

    An output dimension is a batch dimension where both factors have it, else a row (of a) or a column (of b).
    """
    extents = [high - low for low, high in chunk]
    a = np.broadcast_to(a, (*a.shape[:rank], *extents[rank:]))
    b = np.broadcast_to(b, (*b.shape[:rank], *extents[rank:]))
    inner = list(range(rank, len(chunk)))
    rows = [d for d in range(rank) if a.shape[d] > 1 and b.shape[d] == 1]
    columns = [d for d in range(rank) if a.shape[d] == 1]
    batch = [d for d in range(rank) if a.shape[d] > 1 and b.shape[d] > 1]
    lead, depth = [extents[d] for d in batch], math.prod(extents[rank:])
    left = a.transpose(batch + rows + inner + columns).reshape(*lead, -1, depth)
    right = b.transpose(batch + inner + columns + rows).reshape(*lead, depth, -1)
    order = batch + rows + columns
    if kind_of(left.dtype) == "f" and left.dtype.itemsize == 2:  # NumPy's products of f16 are slow, and it has none of bf16
        product = np.matmul(left.astype(np.float32), right.astype(np.float32)).astype(left.dtype)
    else:
        product = np.matmul(left, right)
    product = product.reshape([max(a.shape[d], b.shape[d]) for d in order])
    return np.broadcast_to(product.transpose([order.index(d) for d in range(rank)]), extents[:rank])


def _computed_in(name: str, precise: bool) -> np.dtype[Any]:
    """The type that values of type `name` are computed in."""
    facts = dtype(name)
    return np.dtype("float64") if precise and facts.kind == "f" else facts.numpy


class _Scope:
    """Evaluates the body of a stage over a chunk of its axes; a value that is used again is kept until its last use."""

    def __init__(self, stage: Stage, arrays: Mapping[str, Array], precise: bool, chunk: Chunk) -> None:
        self.stage, self.arrays, self.precise, self.chunk = stage, arrays, precise, chunk
        self.left = uses(stage.body)
        self.kept: dict[Expr, Array] = {}

    def numpy(self, name: str) -> np.dtype[Any]:
        return _computed_in(name, self.precise)

    def value(self, e: Expr) -> Array:
        """`e` over the chunk, with one dimension per axis, 1 where unused."""
        value = self.kept.pop(e, None)
        if value is None:
            value = self._value(e)
        self.left[e] -= 1
        if self.left[e] > 0:
            self.kept[e] = value
        return value

    def _value(self, e: Expr) -> Array:
        chunk, rank = self.chunk, len(self.chunk)
        if isinstance(e, Const):
            rounded = converted(np.array(e.value), e.dtype)
            return rounded.astype(self.numpy(e.dtype)).reshape((1,) * rank)
        if isinstance(e, Var):
            position = next(d for d, a in enumerate(self.stage.all_axes) if a.name == e.name)
            shape = [-1 if d == position else 1 for d in range(rank)]
            return np.arange(*chunk[position], dtype=np.int64).reshape(shape)
        if isinstance(e, Load):
            return self.load(e).astype(self.numpy(e.dtype), copy=False)
        if isinstance(e, Cast):
            rounded = converted(self.value(e.a), e.dtype)
            return rounded.astype(self.numpy(e.dtype), copy=False)
        if isinstance(e, Bitcast):
            bits = converted(self.value(e.a), e.a.dtype, copy=True).view(dtype(e.dtype).numpy)
            return bits.astype(self.numpy(e.dtype), copy=False)
        if isinstance(e, Select):
            return np.where(self.value(e.cond), self.value(e.a), self.value(e.b))
        if isinstance(e, Unary):
            a = self.value(e.a)
            return np.asarray(UNARY_FUNCTIONS[e.op](a)).astype(a.dtype, copy=False)
        if isinstance(e, Binary):
            return np.asarray(BINARY_FUNCTIONS[e.op](self.value(e.a), self.value(e.b)))
        raise InternalError(f"stage {self.stage.name}: cannot evaluate {type(e).__name__}")

    def load(self, e: Load) -> Array:
        array, chunk = self.arrays[e.tensor], self.chunk
        if array.size == 0:  # no element to read: only a branch that is never taken can ask for one
            return np.zeros((1,) * len(chunk), array.dtype)
        view = self.view(e, array)
        if view is not None:
            return view
        if not e.indices:
            return array.reshape((1,) * len(chunk))
        indices = [np.clip(self.value(i), 0, n - 1) for i, n in zip(e.indices, array.shape)]
        return np.asarray(array[tuple(indices)])

    def view(self, e: Load, array: Array) -> Array | None:
        """The load as a view without a copy, where all indices are affine and stay in bounds."""
        chunk, bounds = self.chunk, self.stage.bounds()
        shape, strides = [1] * len(chunk), [0] * len(chunk)
        starts = []
        positions = {a.name: d for d, a in enumerate(self.stage.all_axes)}
        for index, extent, stride in zip(e.indices, array.shape, array.strides):
            form = affine(index)
            if form is None:
                return None
            low, high = bounds.affine_range(form)
            if low < 0 or high >= extent:
                return None
            for name, coefficient in form.terms.items():
                d = positions[name]
                shape[d] = chunk[d][1] - chunk[d][0]
                strides[d] += coefficient * stride
            starts.append(form.offset + sum(c * chunk[positions[n]][0] for n, c in form.terms.items()))
        base = array[tuple(slice(start, None) for start in starts)] if starts else array
        return as_strided(base, shape, strides, writeable=False)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # in 0..1: never overflows
    return np.where(x >= 0, 1, small) / (1 + small)


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64)), dtype=np.float64)


UNARY_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "abs": np.abs, "not": np.logical_not, "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "sigmoid": _sigmoid,
    "erf": _erf, "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
}  # fmt: skip

BINARY_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "max": np.maximum, "min": np.minimum, "pow": np.power, "lt": np.less, "le": np.less_equal,
    "eq": np.equal, "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
