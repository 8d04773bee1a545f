"""Expressions: what one element of a tensor is.

    expr   := Const(value, dtype) | Var(name)
            | Unary(op, a) | Binary(op, a, b) | Select(cond, a, b) | Cast(dtype, a)
            | Load(tensor, indices)
            | Reduce(op, source, axes)          only at the top of a stage's body

A `Var` names an axis of the stage (always i64). Python numbers take the type of the other operand. `==` and `!=` make
expressions, like every other operator, and a node's hash is that of its identity: whether two expressions are the same
program is asked of their `key`.

Nodes are immutable, and equal ones are one object: a value that is used again is one node. Whatever goes through an
expression has to visit each node once (`walk`, `transform`): twenty `v = v + v` in a row are a million nodes if written out.

Integer division rounds down and the remainder takes the divisor's sign, as in Python. A load whose index cannot be
proved to be in bounds (it is computed from data) is clamped to the tensor's edge, in every evaluator.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import canonical, dtype, is_float
from tensorsmith.lang.interned import Interned

Scalar = int | float | bool

#: of integers; shifts are by 0 up to the number of bits less one, to the right with the sign
BITS = ("bitand", "bitor", "bitxor", "shl", "shr")
ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "mod", "max", "min", "pow")
COMPARISONS = ("lt", "le", "eq", "ne")
LOGIC = ("and", "or")
FLOAT_FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "floor", "ceil", "round",
)  # fmt: skip
UNARY = ("neg", "abs", "not", *FLOAT_FUNCTIONS)
#: functions that cost many instructions; a stage that calls one is not recomputed lightly
EXPENSIVE = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "pow")
REDUCTIONS = ("sum", "prod", "max", "min")

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}


class Expr(metaclass=Interned):
    """Base of all nodes; carries the operators."""

    __slots__ = ()
    dtype: str

    def __add__(self, other: ExprLike) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("div", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return binary("floordiv", other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("mod", self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return binary("mod", other, self)

    def __pow__(self, other: ExprLike) -> Expr:
        return binary("pow", self, other)

    def __rpow__(self, other: ExprLike) -> Expr:
        return binary("pow", other, self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __abs__(self) -> Expr:
        return unary("abs", self)

    def __lt__(self, other: ExprLike) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return binary("lt", other, self)

    def __ge__(self, other: ExprLike) -> Expr:
        return binary("le", other, self)

    def __eq__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return binary("eq", self, other)

    def __ne__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return binary("ne", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: ExprLike) -> Expr:
        return binary("and", self, other)

    def __or__(self, other: ExprLike) -> Expr:
        return binary("or", self, other)

    def __invert__(self) -> Expr:
        return unary("not", self)

    def __bool__(self) -> NoReturn:
        raise UserError(
            f"the expression `{self}` has no truth value while a computation is being defined; "
            "use select(cond, a, b) instead of `if`, & | ~ instead of `and or not`, and (a < b) & (b < c) instead of a < b < c"
        )

    @functools.cached_property
    def key(self) -> bytes:
        """The content of the expression in 16 bytes: two with the same key are the same program.

        NaN is the same as NaN and 0.0 is not -0.0 here: this is of programs, not of numbers. Linear in the number of nodes,
        however often they are shared.
        """
        operands = children(self)
        digest = hashlib.blake2b(repr((type(self).__name__, len(operands), *_own(self))).encode(), digest_size=16)
        for operand in operands:
            digest.update(operand.key)
        return digest.digest()

    def __str__(self) -> str:
        from tensorsmith.lang.text import show

        return show(self)


ExprLike = Expr | int | float | bool | np.generic


@dataclass(frozen=True, repr=False, eq=False)
class Const(Expr):
    value: Scalar
    dtype: str


@dataclass(frozen=True, repr=False, eq=False)
class Var(Expr):
    name: str

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return "i64"


@dataclass(frozen=True, repr=False, eq=False)
class Axis(Var):
    """A loop axis with its extent; usable as an expression (its variable)."""

    extent: int = 1


@dataclass(frozen=True, repr=False, eq=False)
class Unary(Expr):
    op: str
    a: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)


@dataclass(frozen=True, repr=False, eq=False)
class Binary(Expr):
    op: str
    a: Expr
    b: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", "bool" if self.op in COMPARISONS or self.op in LOGIC else self.a.dtype)


@dataclass(frozen=True, repr=False, eq=False)
class Select(Expr):
    cond: Expr
    a: Expr
    b: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)


@dataclass(frozen=True, repr=False, eq=False)
class Cast(Expr):
    dtype: str
    a: Expr


@dataclass(frozen=True, repr=False, eq=False)
class Load(Expr):
    """An element of a tensor. `source` is the tensor object while a definition is written, and None in a workload."""

    tensor: str
    indices: tuple[Expr, ...]
    dtype: str
    source: object = None


@dataclass(frozen=True, repr=False, eq=False)
class Reduce(Expr):
    op: str
    source: Expr
    axes: tuple[Axis, ...]
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.source.dtype)


def wrap(value: ExprLike, like: str | None = None) -> Expr:
    """An expression for a Python or NumPy number, of type `like` where that can hold it."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, np.float64) and like is not None:  # what np.sqrt(2) gives: a Python float to its user
        return wrap(float(value), like)
    if isinstance(value, np.generic):
        return Const(value.item(), canonical(value.dtype))
    if isinstance(value, bool):
        return Const(value, "bool") if like in (None, "bool") else wrap(int(value), like)
    if isinstance(value, int):
        like = like or "i64"
        if is_float(like):
            return Const(float(value), like)
        if like == "bool":
            raise UserError(f"{value} is not a bool; use True or False")
        limits = np.iinfo(dtype(like).numpy)
        if not limits.min <= value <= limits.max:
            raise UserError(f"{value} does not fit {like}, which holds {limits.min}..{limits.max}; cast the other side")
        return Const(value, like)
    if isinstance(value, float):
        return Const(value, like if like is not None and is_float(like) else "f32")
    hint = "; index it first, as in A[i, j]" if hasattr(value, "shape") else ""
    raise UserError(f"cannot use {type(value).__name__} {value!r} in an expression{hint}")


def _pair(op: str, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    if isinstance(a, Expr):
        left, right = a, wrap(b, a.dtype)
    else:
        right = wrap(b)
        left = wrap(a, right.dtype)
    if left.dtype != right.dtype:
        raise UserError(
            f"`{show_call(op, left, right)}` mixes {left.dtype} and {right.dtype}; "
            f'cast one side, for example cast("{left.dtype}", ...)'
        )
    return left, right


def show_call(op: str, *args: Expr) -> str:
    if op in _SYMBOLS and len(args) == 2:
        return f"{args[0]} {_SYMBOLS[op]} {args[1]}"
    return f"{op}({', '.join(map(str, args))})"


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """A checked binary node; see the operators on `Expr`."""
    left, right = _pair(op, a, b)
    kind = dtype(left.dtype).kind
    if op in LOGIC and kind != "b":
        raise UserError(f"`{show_call(op, left, right)}` needs bool operands, not {left.dtype}")
    if op in BITS and kind not in "iu":
        raise UserError(f"`{show_call(op, left, right)}` needs integers, not {left.dtype}")
    if op in ARITHMETIC and kind == "b":
        raise UserError(f"`{show_call(op, left, right)}` needs numbers, not bool; use & | ~ or cast")
    if op in ("div", "pow") and kind != "f":
        raise UserError(f"`{show_call(op, left, right)}` needs floats, not {left.dtype}; use // or cast to f32 first")
    if op in ("floordiv", "mod") and kind != "f" and isinstance(right, Const) and right.value == 0:
        raise UserError(f"`{show_call(op, left, right)}` divides by the constant 0")
    return Binary(op, left, right)


def unary(op: str, a: ExprLike) -> Expr:
    """A checked unary node."""
    operand = wrap(a)
    kind = dtype(operand.dtype).kind
    if op in FLOAT_FUNCTIONS and kind != "f":
        raise UserError(f'`{op}({operand})` needs a float, not {operand.dtype}; write {op}(cast("f32", ...))')
    if (op == "not") != (kind == "b"):
        raise UserError(f"`{op}({operand})` does not take {operand.dtype}")
    return Unary(op, operand)


def children(e: Expr) -> tuple[Expr, ...]:
    """The operands of a node."""
    if isinstance(e, Binary):
        return (e.a, e.b)
    if isinstance(e, (Unary, Cast)):
        return (e.a,)
    if isinstance(e, Select):
        return (e.cond, e.a, e.b)
    if isinstance(e, Load):
        return e.indices
    if isinstance(e, Reduce):
        return (e.source,)
    return ()


def _own(e: Expr) -> tuple[object, ...]:
    """What a node says besides its operands."""
    if isinstance(e, Const):
        return (e.value, e.dtype)
    if isinstance(e, Axis):
        return (e.name, e.extent)
    if isinstance(e, Var):
        return (e.name,)
    if isinstance(e, (Unary, Binary)):
        return (e.op,)
    if isinstance(e, Cast):
        return (e.dtype,)
    if isinstance(e, Load):
        return (e.tensor, e.dtype)
    if isinstance(e, Reduce):
        return (e.op, *(_own(a) for a in e.axes))
    return ()


def same(a: Expr | Iterable[Expr], b: Expr | Iterable[Expr]) -> bool:
    """Whether two expressions, or two rows of them, are the same programs."""
    left, right = ([x.key for x in ((e,) if isinstance(e, Expr) else e)] for e in (a, b))
    return left == right


AnyExpr = TypeVar("AnyExpr", bound=Expr)


def distinct(items: Iterable[AnyExpr]) -> tuple[AnyExpr, ...]:
    """The first of each of the programs that there are among some expressions, in their order."""
    found: dict[bytes, AnyExpr] = {}
    for e in items:
        found.setdefault(e.key, e)
    return tuple(found.values())


def rebuild(e: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The node `e` with other operands."""
    if isinstance(e, Binary):
        return Binary(e.op, *parts)
    if isinstance(e, Unary):
        return Unary(e.op, *parts)
    if isinstance(e, Cast):
        return Cast(e.dtype, *parts)
    if isinstance(e, Select):
        return Select(*parts)
    if isinstance(e, Load):
        return Load(e.tensor, parts, e.dtype, e.source)
    if isinstance(e, Reduce):
        return Reduce(e.op, parts[0], e.axes)
    return e


def transform(e: Expr, f: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrites top down: what `f` gives replaces the node; where it gives None the operands are visited."""
    new: dict[Expr, Expr] = {}
    todo = [(e, False)]
    while todo:
        x, visited = todo.pop()  # visited: its operands are in `new`
        if x in new:
            continue
        old = children(x)
        if visited:
            parts = tuple(new[c] for c in old)
            new[x] = x if all(p is q for p, q in zip(parts, old)) else rebuild(x, parts)
            continue
        replaced = f(x)
        if replaced is not None:
            new[x] = replaced
        else:
            todo.append((x, True))
            todo.extend((c, False) for c in reversed(old))
    return new[e]


def substitute(e: Expr, values: dict[str, Expr]) -> Expr:
    """`e` with variables replaced by name."""
    return transform(e, lambda x: values.get(x.name, x) if isinstance(x, Var) else None)


def walk(e: Expr) -> Iterator[Expr]:
    """Every node of `e` once, parents first."""
    seen: set[Expr] = set()
    todo = [e]
    while todo:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            yield x
            todo.extend(reversed(children(x)))


def joined(e: Expr, op: str) -> list[Expr]:
    """What `op` joins: a, b and c of (a & b) & c, each once."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    todo = [e]
    while todo:
        x = todo.pop()
        if not isinstance(x, Binary) or x.op != op:
            found[x] = None
        elif x not in seen:
            seen.add(x)
            todo.extend((x.b, x.a))
    return list(found)


def operands_first(e: Expr) -> list[Expr]:
    """Every node of `e` once, each after its operands."""
    found: dict[Expr, None] = {}
    todo = [(e, False)]
    while todo:
        x, visited = todo.pop()
        if visited:
            found[x] = None
        elif x not in found:
            todo.append((x, True))
            todo.extend((c, False) for c in reversed(children(x)))
    return list(found)


def written_out(e: Expr, own: Callable[[Expr], int] = lambda x: 1) -> int:
    """How many nodes `e` has where each is written again for each of its uses; `own` may let some count for more."""
    size: dict[Expr, int] = {}
    for x in operands_first(e):
        size[x] = own(x) + sum(size[c] for c in children(x))
    return size[e]


def depth(e: Expr) -> int:
    """The most nodes that stand inside each other."""
    found: dict[Expr, int] = {}
    for x in operands_first(e):
        found[x] = 1 + max((found[c] for c in children(x)), default=0)
    return found[e]


def uses(e: Expr) -> dict[Expr, int]:
    """How often each node of `e` is an operand, each after its own operands; `e` itself is used once, by whoever asks."""
    found = dict.fromkeys(operands_first(e), 0)
    for x in found:
        for c in children(x):
            found[c] += 1
    found[e] += 1
    return found


def shared(e: Expr) -> list[Expr]:
    """The nodes with operands that `e` uses more than once, each after its operands."""
    return [x for x, times in uses(e).items() if times > 1 and children(x)]


_LARGEST_TEXT = 4096  # nodes of an expression that is still written out


def parts(e: Expr) -> list[Expr]:
    """What has to be written once, under a name, so that the text of an expression does not explode: nothing, of most of them."""
    return shared(e) if written_out(e) > _LARGEST_TEXT else []


def loads(e: Expr) -> list[Load]:
    """Every load in `e`, those inside indices too."""
    return [x for x in walk(e) if isinstance(x, Load)]


def variables(e: Expr) -> set[str]:
    """The names of the variables in `e`."""
    return {x.name for x in walk(e) if isinstance(x, Var)}
