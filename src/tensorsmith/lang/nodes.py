"""The nodes of expressions: what one element of a tensor is.

    expr   := Const(value, dtype) | Var(name)
            | Unary(op, a) | Binary(op, a, b) | Select(cond, a, b) | Cast(dtype, a) | Bitcast(dtype, a)
            | Load(tensor, indices)
            | Reduce(op, source, axes)          only while a definition is written: a stage of its own is made of each

A `Var` names an axis of the stage (always i64). Python numbers take the type of the other operand. `==` and `!=` make
expressions, like every other operator, and a node's hash is that of its identity: whether two expressions are the same
program is asked of their `key`.

Nodes are immutable, and equal ones are one object: a value that is used again is one node. Whatever goes through an
expression has to visit each node once (`visit.walk`, `expr.transform`): twenty `v = v + v` in a row are a million nodes if
written out. A node says of itself what its operands are, what it says besides them, and how it reads.

Integer division rounds down and the remainder takes the divisor's sign, as in Python. A load whose index cannot be
proved to be in bounds (it is computed from data) is clamped to the tensor's edge, in every evaluator.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang import from_numpy
from tensorsmith.lang.dtypes import NAMES, canonical, dtype, is_float
from tensorsmith.lang.interned import Interned
from tensorsmith.lang.text import INFIX, TIGHTEST, Names, axes_text, call, inside, show
from tensorsmith.show.line import line, plain

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


class Expr(metaclass=Interned):
    """Base of all nodes; carries the operators."""

    __slots__ = ()
    dtype: str

    @property
    def operands(self) -> tuple[Expr, ...]:
        return ()

    @property
    def own(self) -> tuple[object, ...]:
        """What a node says besides its operands."""
        return ()

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        """The node with others in their place."""
        return self

    def text(self, names: Names, level: int = 0) -> str:
        """The node as one line, parts of it by their names; in parentheses where it binds less tightly than `level`."""
        raise NotImplementedError

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
        return _power(self, other)

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
        return _logic_or_bits("and", self, other)

    def __rand__(self, other: ExprLike) -> Expr:
        return _logic_or_bits("and", other, self)

    def __or__(self, other: ExprLike) -> Expr:
        return _logic_or_bits("or", self, other)

    def __ror__(self, other: ExprLike) -> Expr:
        return _logic_or_bits("or", other, self)

    def __xor__(self, other: ExprLike) -> Expr:
        return _logic_or_bits("xor", self, other)

    def __rxor__(self, other: ExprLike) -> Expr:
        return _logic_or_bits("xor", other, self)

    def __invert__(self) -> Expr:
        return _inverted(self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return shift(self, other, left=True)

    def __rlshift__(self, other: ExprLike) -> Expr:
        return shift(other, self, left=True)

    def __rshift__(self, other: ExprLike) -> Expr:
        return shift(self, other, left=False)

    def __rrshift__(self, other: ExprLike) -> Expr:
        return shift(other, self, left=False)

    def __bool__(self) -> NoReturn:
        raise UserError(
            f"the expression `{self}` has no truth value while a computation is being defined; "
            "use select(cond, a, b) instead of `if`, & | ~ instead of `and or not`, and (a < b) & (b < c) instead of a < b < c"
        )

    def __array_ufunc__(self, function: Callable[..., Any], method: str, *args: Any, **options: Any) -> Any:
        """NumPy's element-wise functions, as `np.exp(A[i, j])`, and its numbers as operands, as in `np.float32(2) * A[i, j]`."""
        return from_numpy.applied(function, method, args, options)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, options: Any) -> Any:
        """NumPy's other functions, as `np.where(A[i, j] > 0, A[i, j], 0)`."""
        return from_numpy.applied(function, "__call__", args, options)

    @functools.cached_property
    def key(self) -> bytes:
        """The content of the expression in 16 bytes: two with the same key are the same program.

        NaN is the same as NaN and 0.0 is not -0.0 here: this is of programs, not of numbers. Linear in the number of nodes,
        however often they are shared.
        """
        operands = self.operands
        digest = hashlib.blake2b(repr((type(self).__name__, len(operands), *self.own)).encode(), digest_size=16)
        for operand in operands:
            digest.update(operand.key)
        return digest.digest()

    def __str__(self) -> str:
        return plain(show(self))

    def __repr__(self) -> str:
        return line(self, f"{self.dtype} {self}", f" {self.key[:4].hex()}")

    def __reduce__(self) -> tuple[object, ...]:
        """Made again, a node is the one that is there already."""
        return type(self), tuple(getattr(self, f.name) for f in fields(self) if f.init)  # type: ignore[arg-type]


ExprLike = Expr | int | float | bool | np.generic


@dataclass(frozen=True, repr=False, eq=False)
class Const(Expr):
    value: Scalar
    dtype: str

    @property
    def own(self) -> tuple[object, ...]:
        return (self.value, self.dtype)

    def text(self, names: Names, level: int = 0) -> str:
        return repr(self.value)


@dataclass(frozen=True, repr=False, eq=False)
class Var(Expr):
    name: str

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return "i64"

    @property
    def own(self) -> tuple[object, ...]:
        return (self.name,)

    def text(self, names: Names, level: int = 0) -> str:
        return self.name


@dataclass(frozen=True, repr=False, eq=False)
class Axis(Var):
    """A loop axis with its extent; usable as an expression (its variable)."""

    extent: int = 1

    @property
    def own(self) -> tuple[object, ...]:
        return (self.name, self.extent)

    def __repr__(self) -> str:
        return line(self, axes_text([self]))


@dataclass(frozen=True, repr=False, eq=False)
class Unary(Expr):
    op: str
    a: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.a,)

    @property
    def own(self) -> tuple[object, ...]:
        return (self.op,)

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        return Unary(self.op, *operands)

    def text(self, names: Names, level: int = 0) -> str:
        return f"-{inside(self.a, names, TIGHTEST)}" if self.op == "neg" else call(self.op, names, self.a)


@dataclass(frozen=True, repr=False, eq=False)
class Binary(Expr):
    op: str
    a: Expr
    b: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", "bool" if self.op in COMPARISONS or self.op in LOGIC else self.a.dtype)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    @property
    def own(self) -> tuple[object, ...]:
        return (self.op,)

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        return Binary(self.op, *operands)

    def text(self, names: Names, level: int = 0) -> str:
        if self.op not in INFIX:
            return call(self.op, names, self.a, self.b)
        symbol, own = INFIX[self.op]
        chained = own + (self.op in COMPARISONS)  # `a < b == c` would read as two comparisons of b
        text = f"{inside(self.a, names, chained)} {symbol} {inside(self.b, names, own + 1)}"
        return f"({text})" if own < level else text


@dataclass(frozen=True, repr=False, eq=False)
class Select(Expr):
    cond: Expr
    a: Expr
    b: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.cond, self.a, self.b)

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        return Select(*operands)

    def text(self, names: Names, level: int = 0) -> str:
        return call("select", names, self.cond, self.a, self.b)


@dataclass(frozen=True, repr=False, eq=False)
class Cast(Expr):
    dtype: str
    a: Expr

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.a,)

    @property
    def own(self) -> tuple[object, ...]:
        return (self.dtype,)

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        return Cast(self.dtype, *operands)

    def text(self, names: Names, level: int = 0) -> str:
        return call(self.dtype, names, self.a)


@dataclass(frozen=True, repr=False, eq=False)
class Bitcast(Expr):
    """The bits of a value, taken for another type of the same size."""

    dtype: str
    a: Expr

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.a,)

    @property
    def own(self) -> tuple[object, ...]:
        return (self.dtype,)

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        return Bitcast(self.dtype, *operands)

    def text(self, names: Names, level: int = 0) -> str:
        return call(f"bits_as_{self.dtype}", names, self.a)


@dataclass(frozen=True, repr=False, eq=False)
class Load(Expr):
    """An element of a tensor. `source` is the tensor object while a definition is written, and None in a workload."""

    tensor: str
    indices: tuple[Expr, ...]
    dtype: str
    source: object = None

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.indices

    @property
    def own(self) -> tuple[object, ...]:
        return (self.tensor, self.dtype)

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        return Load(self.tensor, operands, self.dtype, self.source)

    def text(self, names: Names, level: int = 0) -> str:
        return f"{self.tensor}[{', '.join(inside(i, names) for i in self.indices)}]"


@dataclass(frozen=True, repr=False, eq=False)
class Reduce(Expr):
    op: str
    source: Expr
    axes: tuple[Axis, ...]
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.source.dtype)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.source,)

    @property
    def own(self) -> tuple[object, ...]:
        return (self.op, *(a.own for a in self.axes))

    def with_operands(self, operands: tuple[Expr, ...]) -> Expr:
        return Reduce(self.op, operands[0], self.axes)

    def text(self, names: Names, level: int = 0) -> str:
        return f"{self.op}({inside(self.source, names)}, over {axes_text(self.axes)})"


# -- making nodes ----------------------------------------------------------------------------------------------------


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
            f"`{_show_call(op, left, right)}` mixes {left.dtype} and {right.dtype}; "
            f'cast one side, for example cast("{left.dtype}", ...)'
        )
    return left, right


_SYMBOLS = {"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}


def _show_call(op: str, *args: Expr) -> str:
    if (op in ARITHMETIC and op in INFIX) or op in _SYMBOLS:
        return f"{args[0]} {_SYMBOLS.get(op) or INFIX[op][0]} {args[1]}"
    return f"{op}({', '.join(map(str, args))})"


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """A checked binary node; see the operators on `Expr`."""
    left, right = _pair(op, a, b)
    kind = dtype(left.dtype).kind
    if op in LOGIC and kind != "b":
        raise UserError(f"`{_show_call(op, left, right)}` needs bool operands, not {left.dtype}")
    if op in BITS and kind not in "iu":
        raise UserError(f"`{_show_call(op, left, right)}` needs integers, not {left.dtype}")
    if op in ARITHMETIC and kind == "b":
        raise UserError(f"`{_show_call(op, left, right)}` needs numbers, not bool; use & | ~ or cast")
    if op in ("div", "pow") and kind != "f":
        instead = "use // or cast to f32 first" if op == "div" else "give the exponent as a number from 0 up, or cast to f32 first"
        raise UserError(f"`{_show_call(op, left, right)}` needs floats, not {left.dtype}; {instead}")
    if op in ("floordiv", "mod") and kind != "f" and isinstance(right, Const) and right.value == 0:
        raise UserError(f"`{_show_call(op, left, right)}` divides by the constant 0")
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


def bitcast(to: str, a: Expr) -> Expr:
    """A checked `Bitcast`."""
    have, want = dtype(a.dtype), dtype(to)
    if "b" in (have.kind, want.kind) or have.bytes != want.bytes:
        fits = [n for n in NAMES if dtype(n).bytes == have.bytes and "b" not in (have.kind, dtype(n).kind)]
        raise UserError(f"the bits of `{a}` ({a.dtype}) cannot be taken for {to}; possible are {', '.join(fits) or 'none'}")
    return Bitcast(to, a)


def _logic_or_bits(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """`& | ^`: of two bools whether both, one or just one of them holds, of integers bit by bit."""
    left, right = _pair(op, a, b)
    if dtype(left.dtype).kind == "b":
        return Binary("ne" if op == "xor" else op, left, right)
    if dtype(left.dtype).kind == "f":
        raise UserError(f"`{_show_call(op, left, right)}` needs bool operands or integers, not {left.dtype}")
    return Binary(f"bit{op}", left, right)


def _inverted(a: Expr) -> Expr:
    """`~`: not of a bool, every bit of an integer."""
    if dtype(a.dtype).kind not in "iu":
        return unary("not", a)
    return Binary("bitxor", a, wrap(-1 if dtype(a.dtype).kind == "i" else int(np.iinfo(dtype(a.dtype).numpy).max), a.dtype))


def shift(a: ExprLike, by: ExprLike, *, left: bool) -> Expr:
    """The bits of an integer moved by some places; what leaves is lost. To the right the sign comes in, to the left zeros.

    By less than 0, or by as many places as there are bits or more, only the sign is left: -1 of what is below 0 and moved to the
    right, else 0. That is what NumPy gives.
    """
    op = "shl" if left else "shr"
    value, count = _pair(op, a, by)
    kind, bits = dtype(value.dtype).kind, dtype(value.dtype).bytes * 8
    if kind not in "iu":
        raise UserError(f"`{_show_call(op, value, count)}` needs integers, not {value.dtype}")
    if isinstance(count, Const):
        if not 0 <= count.value < bits:
            raise UserError(
                f"`{_show_call(op, value, count)}` moves {value.dtype} by {count.value} places; allowed are 0..{bits - 1}"
            )
        return Binary(op, value, count)
    inside = (count >= 0) & (count < bits) if kind == "i" else count < bits
    nothing = wrap(0, value.dtype)
    places = Select(inside, count, nothing)
    if left:
        return Select(inside, Binary("shl", value, places), nothing)
    moved = Binary("shr", value, places)
    if kind == "u":
        return Select(inside, moved, nothing)
    return Select(inside, moved, Select(value < 0, wrap(-1, value.dtype), nothing))


def _power(a: Expr, exponent: ExprLike) -> Expr:
    """`**`. Of integers by multiplications, which wrap around as NumPy's do."""
    if dtype(a.dtype).kind not in "iu" or isinstance(exponent, (bool, np.bool_)) or not isinstance(exponent, (int, np.integer)):
        return binary("pow", a, exponent)
    if exponent < 0:
        return binary("pow", a, int(exponent))
    result: Expr | None = None
    for digit in bin(int(exponent))[2:]:
        result = None if result is None else result * result
        if digit == "1":
            result = a if result is None else result * a
    return wrap(1, a.dtype) if result is None else result
