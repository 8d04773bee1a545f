"""The words a computation is defined with: placeholder, compute, reduce_axis, plain reductions and functions that are operations.

What is put together of these words is in `functions` and `reductions`; `words` lists them all.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol, overload

import numpy as np

from tensorsmith.errors import UserError, whole_number
from tensorsmith.lang.check import check_depth
from tensorsmith.lang.dtypes import canonical, dtype
from tensorsmith.lang.expr import (
    Axis,
    Binary,
    Cast,
    Expr,
    ExprLike,
    Load,
    Reduce,
    Select,
    Var,
    binary,
    bitcast,
    loads,
    operands_first,
    transform,
    unary,
    wrap,
)
from tensorsmith.lang.from_numpy import of_tensor
from tensorsmith.lang.stage import Buffer, Stage, topological
from tensorsmith.lang.workload import Workload
from tensorsmith.show.line import line, many, typed

_MOST_ELEMENTS = 1 << 59  # of a tensor: 8 bytes each, and offsets still fit 64 bits


@dataclass(frozen=True, eq=False)
class Tensor:
    """A placeholder (`stage` is None) or the result of a compute; index it to read an element."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: bool = False
    stage: Stage | None = None

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        """The element at these indices, one for each dimension: numbers, axes, or expressions of integers.

        An index of axes and numbers has to be in bounds, which is proved when the workload is made; there are no negative indices
        that count from the end. One that is computed from data, as in `A[index[i]]`, is clamped: below 0 it reads element 0, past
        the end the last one. `compile(..., check_indices=True)` makes such an index an error.
        """
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise UserError(f"{self.name} has {many(len(self.shape), 'dimension')} {list(self.shape)}, got {len(items)} indices")
        return Load(self.name, tuple(_index(self, i) for i in items), self.dtype, self)

    def __eq__(self, other: object) -> bool:
        """Whether it is the very same tensor; elements are compared as in `A[i] == B[i]`."""
        if isinstance(other, (Expr, int, float, np.generic, np.ndarray)):
            raise UserError(f"the tensor {self.name} is compared with {other}; index it first, as in {self.name}[i, j] == ...")
        return self is other

    __hash__ = object.__hash__

    def __array_ufunc__(self, function: Callable[..., Any], method: str, *args: Any, **options: Any) -> NoReturn:
        raise of_tensor(self.name, len(self.shape), function)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, options: Any) -> NoReturn:
        raise of_tensor(self.name, len(self.shape), function)

    def __str__(self) -> str:
        return str(self.stage) if self.stage else str(Buffer(self.name, self.shape, self.dtype, self.constant))

    def __repr__(self) -> str:
        given = "constant" if self.constant else "placeholder"
        how = f" {self.stage.body.key[:4].hex()}" if self.stage else ""
        return line(self, f"{self.name}: {typed(self.dtype, self.shape)}, {'computed' if self.stage else given}", how)


def _index(tensor: Tensor, given: ExprLike) -> Expr:
    index = wrap(given, "i64")
    if isinstance(index, Axis):
        return Var(index.name)
    if dtype(index.dtype).kind not in "iu":
        raise UserError(f"{tensor.name} is indexed by `{index}` of type {index.dtype}; an index must be an integer")
    return index if index.dtype == "i64" else Cast("i64", index)


def _shape(given: object, what: str) -> tuple[int, ...]:
    number = whole_number(given)
    if number is None and (isinstance(given, (Set, Mapping)) or not isinstance(given, Iterable)):
        raise UserError(f"{what} has the shape {given!r}; give a whole number or a sequence of them")
    items = tuple(given) if number is None else (number,)  # type: ignore[arg-type]
    for n in items:
        if (extent := whole_number(n)) is None or extent < 0:
            raise UserError(f"{what} has the shape {list(items)}; every extent must be a whole number, 0 or more")
    if math.prod(int(n) for n in items) > _MOST_ELEMENTS:
        raise UserError(f"{what} has the shape {list(items)}; no memory holds so many elements")
    return tuple(int(n) for n in items)


def _name(given: object, what: str) -> str:
    if not isinstance(given, str) or not given:
        raise UserError(f"{what} is called {given!r}; a name is a string that is not empty")
    return given


def placeholder(shape: Sequence[int] | int, dtype: object = "f32", name: str = "A", constant: bool = False) -> Tensor:
    """An input. A `constant` one (weights) may be re-laid out once, when an executable is made."""
    return Tensor(_name(name, "a placeholder"), _shape(shape, f"placeholder {name}"), canonical(dtype), constant)


def reduce_axis(extent: int, name: str = "k") -> Axis:
    """An axis to reduce over; use it as an index and hand it to a reduction."""
    shape = _shape(extent, f"reduce axis {name}")
    if len(shape) != 1:
        raise UserError(f"reduce axis {name} has the extent {extent!r}; give one whole number, and one axis for each dimension")
    if not re.fullmatch(r"[\w.]+", _name(name, "a reduce axis")):  # loops are written by the names of their axes
        raise UserError(f"a reduce axis is called {name!r}; the name of an axis has letters, digits, underscores and points only")
    return Axis(name, *shape)


Body = Callable[..., ExprLike]
Bodies = Callable[..., Sequence[ExprLike]]


@overload
def compute(shape: Sequence[int] | int, body: Body, name: str = "T") -> Tensor: ...


@overload
def compute(shape: Sequence[int] | int, body: Bodies, name: tuple[str, ...] | list[str]) -> tuple[Tensor, ...]: ...


def compute(
    shape: Sequence[int] | int, body: Body | Bodies, name: str | tuple[str, ...] | list[str] = "T"
) -> Tensor | tuple[Tensor, ...]:
    """The tensor whose element at (i, j, ...) is `body(i, j, ...)`. Axes are named after the parameters of `body`.

    A reduction that is only a part of the body becomes a stage of its own, called `name_sum` (or `name_max`, ...). With several
    names the body gives as many values, and there is a tensor of each.
    """
    names = tuple(name) if isinstance(name, (tuple, list)) else (name,)
    for one in names or (None,):
        _name(one, "a stage")
    extents = _shape(shape, f"stage {names[0]}")
    axes = tuple(Axis(n, e) for n, e in zip(_axis_names(body, len(extents), names[0]), extents))
    result = body(*(Var(a.name) for a in axes))
    values = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(values) != len(names):
        raise UserError(
            f"stage {', '.join(names)}: its body gives {len(values)} values for {len(names)} names; "
            'give a name to each, as in name=("best", "where")'
        )
    stages = _Stages(axes)
    tensors = tuple(stages.tensor(n, axes, wrap(value)) for n, value in zip(names, values))
    return tensors if isinstance(name, (tuple, list)) else tensors[0]


class _Stages:
    """The stages of one `compute`: a reduction inside of a larger expression is one of its own, over those axes that it depends on.

    C[i, j] = A[i, j] / sum(A[i, k], over k)    ->    C_sum[i] = sum(A[i, k], over k);  C[i, j] = A[i, j] / C_sum[i]
    """

    def __init__(self, axes: tuple[Axis, ...]) -> None:
        self.parameters = frozenset(a.name for a in axes)
        self.reductions: dict[tuple[Reduce, tuple[Axis, ...]], Tensor] = {}
        self.names: list[str] = []  # of stages that got one here, without their numbers

    def tensor(self, name: str, axes: tuple[Axis, ...], body: Expr, root: str | None = None) -> Tensor:
        """The tensor of one body; the stages that it needs besides are called after `root`."""
        reduction: str | None = None
        reduce_axes: tuple[Axis, ...] = ()
        key = (body, axes) if isinstance(body, Reduce) else None
        if isinstance(body, Reduce):
            reduction, reduce_axes, body = body.op, body.axes, body.source
        check_depth(name, body)
        body = transform(body, lambda e: self._read(e, axes + reduce_axes, root or name) if isinstance(e, Reduce) else None)
        body = transform(body, lambda x: Var(x.name) if isinstance(x, Axis) else None)
        stage = Stage(name, axes, body, reduction, reduce_axes)
        tensor = Tensor(name, stage.shape, stage.dtype, False, stage)
        if key is not None:
            self.reductions[key] = tensor
        return tensor

    def _read(self, e: Reduce, scope: tuple[Axis, ...], root: str) -> Expr:
        """The read that stands for a reduction in a body over the axes of `scope`."""
        for a in e.axes:
            if a.name in self.parameters:
                raise UserError(f"stage {root}: the axis name {a.name!r} is used twice; give the reduce axis another name")
        free = _free_variables(e)
        within = {a.name: a for a in scope if a.name in free}  # of two with one name, the inner one
        axes = tuple(within.values())
        if (e, axes) not in self.reductions:
            name = f"{root}_{e.op}"
            self.names.append(name)
            again = self.names.count(name)
            self.tensor(f"{name}{again if again > 1 else ''}", axes, e, root)
        return self.reductions[e, axes][tuple(map(Var, within))]


def _free_variables(e: Expr) -> frozenset[str]:
    """The variables that no reduction inside of `e` goes over."""
    found: dict[Expr, frozenset[str]] = {}
    for x in operands_first(e):
        names = frozenset({x.name} if isinstance(x, Var) else ()).union(*(found[c] for c in x.operands))
        found[x] = names - {a.name for a in x.axes} if isinstance(x, Reduce) else names
    return found[e]


def _axis_names(body: Callable[..., object], rank: int, stage: str) -> list[str]:
    try:
        parameters = list(inspect.signature(body).parameters.values())
    except (TypeError, ValueError):
        raise UserError(f"stage {stage}: its body is {body!r}; give a function of its axes, as in lambda i, j: A[i, j]") from None
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return [f"i{n}" for n in range(rank)]
    parameters = [p for p in parameters if p.default is inspect.Parameter.empty]  # `lambda i, n=n:` binds n
    if len(parameters) != rank or any(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters):
        raise UserError(
            f"stage {stage}: the shape has {many(rank, 'dimension')}, its body takes {many(len(parameters), 'argument')}"
        )
    return [p.name for p in parameters]


def refuse_path(given: object) -> None:
    """Raises `UserError` for the path of a model where a computation is expected: it has to be loaded first."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        raise UserError(f"{path!r} is a path, not a model: load it first, as in ts.compile(ts.load({path!r}))")


def workload(tensors: Sequence[Tensor]) -> Workload:
    """The workload of a list of inputs and outputs, as in `[A, B, D]`: placeholders are inputs, the others outputs."""
    refuse_path(tensors)
    if not isinstance(tensors, Iterable):
        raise UserError(f"expected a list of tensors, as in [A, B, C], got {type(tensors).__name__}")
    tensors = list(tensors)
    for t in tensors:
        refuse_path(t)
        if not isinstance(t, Tensor):
            raise UserError(f"expected tensors (placeholder, compute), got {type(t).__name__}")
    inputs = [t for t in tensors if t.stage is None]
    outputs = [t for t in tensors if t.stage is not None]
    if not outputs:
        raise UserError("no output: give the inputs and the computed tensors, as in [A, B, C]")
    reached: dict[str, Tensor] = {}

    todo = [*reversed(outputs), *reversed(inputs)]
    while todo:
        t = todo.pop()
        known = reached.get(t.name)
        if known is t:
            continue
        if known is not None:
            raise UserError(f"two different tensors are called {t.name!r}; give each a name of its own")
        reached[t.name] = t
        if t.stage is not None:
            todo.extend(load.source for load in reversed(loads(t.stage.body)) if isinstance(load.source, Tensor))
    missing = [t.name for t in reached.values() if t.stage is None and t not in inputs]
    if missing:
        raise UserError(f"{', '.join(missing)} is read but not in the list; give every input, as in [A, B, C]")

    stages = [replace(t.stage, body=_without_sources(t.stage.body)) for t in reached.values() if t.stage is not None]
    return Workload(
        tuple(Buffer(t.name, t.shape, t.dtype, t.constant) for t in inputs),
        topological(stages),
        tuple(t.name for t in outputs),
    ).check()


def _without_sources(body: Expr) -> Expr:
    """The body with loads that know their tensors by name alone."""
    new: dict[Expr, Expr] = {}
    for e in operands_first(body):
        operands = tuple(new[x] for x in e.operands)
        new[e] = Load(e.tensor, operands, e.dtype) if isinstance(e, Load) else e.with_operands(operands)
    return new[body]


class Reduction(Protocol):
    def __call__(self, source: ExprLike, axis: Axis | Sequence[Axis]) -> Expr: ...


def _reduction(op: str) -> Reduction:
    def reduce(source: ExprLike, axis: Axis | Sequence[Axis]) -> Expr:
        given, axes = wrap(source), axes_of(op, axis)
        if op in ("sum", "prod") and dtype(given.dtype).is_half:
            return Cast(given.dtype, Reduce(op, _terms(given), axes))
        return Reduce(op, given, axes)

    reduce.__name__ = reduce.__qualname__ = op
    reduce.__doc__ = f"{op} of the expression over one or more reduce axes; it is the whole of a stage, or becomes one."
    if op in ("sum", "prod"):
        reduce.__doc__ += " That of f16 or bf16 is computed in f32, products that it is made of included, and rounded once."
    return reduce


def _terms(e: Expr) -> Expr:
    """What a sum of f16 or bf16 is made of, in f32. Of a product the factors are widened: all its digits count."""
    if isinstance(e, Binary) and e.op == "mul":
        return Binary("mul", _terms(e.a), _terms(e.b))
    return Cast("f32", e)


def axes_of(reduction: str, axis: Axis | Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes that a reduction was given."""
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    if not axes or not all(isinstance(a, Axis) for a in axes):
        raise UserError(f"{reduction}(..., axis=...) takes one or more reduce axes, made by reduce_axis(extent)")
    return axes


def _unary(op: str) -> Callable[[ExprLike], Expr]:
    def function(a: ExprLike) -> Expr:
        return unary(op, wrap(a, "f32") if not isinstance(a, Expr) else a)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{op}, element by element."
    return function


def _binary(op: str) -> Callable[[ExprLike, ExprLike], Expr]:
    def function(a: ExprLike, b: ExprLike) -> Expr:
        return binary(op, a, b)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{op}, element by element."
    return function


sum, prod, max, min = (_reduction(op) for op in ("sum", "prod", "max", "min"))
exp, expm1, log, log1p, sqrt, rsqrt = map(_unary, ("exp", "expm1", "log", "log1p", "sqrt", "rsqrt"))
tanh, sigmoid, erf = map(_unary, ("tanh", "sigmoid", "erf"))
sin, cos, floor, ceil, round = map(_unary, ("sin", "cos", "floor", "ceil", "round"))
maximum, minimum, power, equal, not_equal = map(_binary, ("max", "min", "pow", "eq", "ne"))


def abs(a: ExprLike) -> Expr:
    """Absolute value, element by element."""
    return unary("abs", a)


def select(cond: Expr, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where `cond` holds, else `b`. Loads in the branch not taken are not performed."""
    if not isinstance(cond, Expr) or cond.dtype != "bool":
        raise UserError(f"select() needs a condition, got {cond}")
    left = wrap(a, b.dtype if isinstance(b, Expr) else None)
    right = wrap(b, left.dtype)
    if left.dtype != right.dtype:
        raise UserError(f"select() of {left.dtype} and {right.dtype}; cast one side")
    return Select(cond, left, right)


def cast(to: object, a: ExprLike) -> Expr:
    """The value as another type: float to integer truncates towards zero, anything to bool is `!= 0`."""
    return Cast(canonical(to), wrap(a))


def bits_as(to: object, a: ExprLike) -> Expr:
    """The bits of a value, taken for another type of the same size: NumPy's `view`."""
    return bitcast(canonical(to), wrap(a))
