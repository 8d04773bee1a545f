"""Expressions of kernels in C.

Whole numbers that only count (loop variables, addresses) are `int` where all that they are computed from fits; those that are
values have the type that they have in the definition. f16 is computed in f32 and rounded where it is stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tensorsmith.backends.gpu.printers.dialects import Dialect
from tensorsmith.backends.gpu.printers.names import array_name, variable_name
from tensorsmith.backends.gpu.simt.ir import PRIVATE, Array
from tensorsmith.errors import UserError
from tensorsmith.lang.affine import Bounds
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.expr import COMPARISONS, Binary, Bitcast, Cast, Const, Expr, Load, Select, Unary, Var, walk

_INT = range(-(1 << 31), 1 << 31)

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&&", "or": "||",
    "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>", "div": "/",
}  # fmt: skip

_COUNTING = ("add", "sub", "mul", "floordiv", "mod", "max", "min")
_WRAPPING = ("add", "sub", "mul", "shl")

#: functions of <math.h> by the names of ours
_FUNCTIONS = {
    "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh", "erf": "erf",
    "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil", "round": "rint",
}  # fmt: skip

#: helpers that a kernel's text brings along; {f} is the suffix of functions in f32, {t} the type, {k} our name of it
HELPERS = {
    "max_float": "{t} ts_max_{k}({t} a, {t} b) {{ return (a > b || a != a) ? a : b; }}",
    "min_float": "{t} ts_min_{k}({t} a, {t} b) {{ return (a < b || a != a) ? a : b; }}",
    "max_int": "{t} ts_max_{k}({t} a, {t} b) {{ return a > b ? a : b; }}",
    "min_int": "{t} ts_min_{k}({t} a, {t} b) {{ return a < b ? a : b; }}",
    "floordiv_int": "{t} ts_floordiv_{k}({t} a, {t} b) {{ if (b == 0) return 0; {t} q = a / b; "
    "return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q; }}",
    "mod_int": "{t} ts_mod_{k}({t} a, {t} b) {{ if (b == 0) return 0; {t} r = a % b; "
    "return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }}",
    "mod_float": "{t} ts_mod_{k}({t} a, {t} b) {{ {t} r = fmod{f}(a, b); return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }}",
    "floordiv_float": "{t} ts_floordiv_{k}({t} a, {t} b) {{ {t} r = fmod{f}(a, b); if (r != 0 && ((r < 0) != (b < 0))) r += b; "
    "return rint{f}((a - r) / b); }}",
    "pow_int": "{t} ts_pow_{k}({t} a, {t} b) {{ {t} r = 1; for ({t} n = 0; n < b; ++n) r *= a; return r; }}",
    "sigmoid_float": "{t} ts_sigmoid_{k}({t} a) {{ return 1 / (1 + exp{f}(-a)); }}",
}


def fits_int(e: Expr, bounds: Bounds) -> bool:
    """Whether an expression counts: it is made of loop variables, by arithmetic whose every step fits 32 bits."""
    for x in walk(e):
        if x.dtype == "i64":
            found = bounds.range(x)
            if not isinstance(x, (Const, Var, Select)) and not (isinstance(x, Binary) and x.op in _COUNTING):
                return False
            if found is None or found[0] not in _INT or found[1] not in _INT:
                return False
        elif isinstance(x, Load):
            return False
    return e.dtype == "i64"


class Expressions:
    """Texts of expressions in one kernel. `counts` are how many values each variable may take."""

    def __init__(self, dialect: Dialect, arrays: Mapping[str, Array], counts: Mapping[str, int]) -> None:
        self.dialect, self.arrays = dialect, arrays
        self.bounds = Bounds({name: (0, max(0, n - 1)) for name, n in counts.items()})
        self.helpers: set[tuple[str, str]] = set()  # those used: kind and type
        self.named: dict[Expr, str] = {}  # what has a name already
        self._counting: dict[Expr, bool] = {}

    # -- whole numbers that count --------------------------------------------------------------------------------------

    def counts(self, e: Expr) -> bool:
        """Whether an expression is made of loop variables, and `int` has room for all of it."""
        if e not in self._counting:
            self._counting[e] = fits_int(e, self.bounds)
        return self._counting[e]

    def index(self, e: Expr) -> str:
        """An address, as an `int`: arrays have fewer elements than that has room for."""
        return self._count(e) if self.counts(e) else f"(int)({self.value(e)})"

    def _count(self, e: Expr) -> str:
        if isinstance(e, Const):
            return str(int(e.value))
        if isinstance(e, Var):
            return variable_name(e.name)
        if isinstance(e, Select):
            return f"({self.value(e.cond)} ? {self._count(e.a)} : {self._count(e.b)})"
        if isinstance(e, Binary) and e.op in ("add", "sub", "mul"):
            return f"({self._count(e.a)} {_INFIX[e.op]} {self._count(e.b)})"
        if isinstance(e, Binary) and e.op in ("floordiv", "mod"):
            a, b = self.bounds.range(e.a), self.bounds.range(e.b)
            if a is not None and b is not None and a[0] >= 0 and b[0] > 0:
                return f"({self._count(e.a)} {'/' if e.op == 'floordiv' else '%'} {self._count(e.b)})"
            return self._help(e.op, "i32", self._count(e.a), self._count(e.b))
        if isinstance(e, Binary) and e.op in ("max", "min"):
            return self._help(e.op, "i32", self._count(e.a), self._count(e.b))
        return f"(int)({self._value(e)})"

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, e: Expr) -> str:
        """A value of the expression's own type; truth values are `int`."""
        return self.named[e] if e in self.named else self._value(e)

    def _value(self, e: Expr) -> str:
        if isinstance(e, Const):
            return self._constant(e)
        if isinstance(e, Load):
            return self.load(self.arrays[e.tensor], self.index(e.indices[0]))
        if e.dtype == "i64" and self.counts(e):
            return f"({self.dialect.long}){self._count(e)}"
        if isinstance(e, Cast):
            return self._cast(e)
        if isinstance(e, Bitcast):
            if (e.a.dtype, e.dtype) in self.dialect.bitcasts:
                return f"{self.dialect.bitcasts[e.a.dtype, e.dtype]}({self.value(e.a)})"
            return f"({self.type(e.dtype)})({self.value(e.a)})"
        if isinstance(e, Select):
            return f"({self.value(e.cond)} ? {self.value(e.a)} : {self.value(e.b)})"
        if isinstance(e, Unary):
            return self._unary(e)
        assert isinstance(e, Binary)
        return self._binary(e)

    def type(self, name: str) -> str:
        """What values of a type are computed in."""
        return "float" if name == "f16" else self.dialect.types[name]

    def _constant(self, e: Const) -> str:
        if is_float(e.dtype):
            if math.isnan(e.value):
                return "NAN"
            if math.isinf(e.value):
                return "INFINITY" if e.value > 0 else "(-INFINITY)"
            text = repr(float(e.value))
            text = text if any(c in text for c in ".en") else f"{text}.0"
            text = text if e.dtype == "f64" else f"{text}f"
            return f"({text})" if text.startswith("-") else text
        number = int(e.value)
        if e.dtype == "i64":
            if number == -(1 << 63):  # has no literal
                return f"(({self.dialect.long})({number + 1}L - 1))"
            return f"(({self.dialect.long}){number}{'' if number in _INT else 'L'})"
        return f"({number})" if number < 0 else str(number)

    def _cast(self, e: Cast) -> str:
        if e.dtype == "bool":
            return f"({self.value(e.a)} != 0)"
        return f"({self.type(e.dtype)})({self.value(e.a)})"

    def _unary(self, e: Unary) -> str:
        a, kind = self.value(e.a), e.dtype
        if e.op == "not":
            return f"(!{a})"
        if e.op == "neg":
            return f"(-{a})" if is_float(kind) else f"({self.type(kind)})(-{a})"
        if e.op == "abs":
            if is_float(kind):
                return f"{self._function('fabs', kind)}({a})"
            return a if dtype(kind).kind == "u" else f"({self.type(kind)})({a} < 0 ? -{a} : {a})"
        if e.op == "sigmoid":
            return self._help("sigmoid", kind, a)
        if e.op in self.dialect.missing:
            raise UserError(f"there is no {e.op} in {self.dialect.name!r}")
        return f"{self._function(_FUNCTIONS[e.op], kind)}({a})"

    def _function(self, name: str, kind: str) -> str:
        return name if kind == "f64" else name + self.dialect.suffix

    def _binary(self, e: Binary) -> str:
        kind = e.a.dtype
        if e.op in COMPARISONS and kind == "i64" and self.counts(e.a) and self.counts(e.b):
            return f"({self._count(e.a)} {_INFIX[e.op]} {self._count(e.b)})"
        if e.op == "add" and is_float(kind):  # sums of products are multiply-adds
            for product, other in ((e.b, e.a), (e.a, e.b)):
                if isinstance(product, Binary) and product.op == "mul" and product not in self.named:
                    arguments = f"{self.value(product.a)}, {self.value(product.b)}, {self.value(other)}"
                    return f"{self._function('fma', kind)}({arguments})"
        a, b = self.value(e.a), self.value(e.b)
        if e.op == "pow":
            return f"{self._function('pow', kind)}({a}, {b})" if is_float(kind) else self._help("pow", kind, a, b)
        if e.op not in _INFIX:
            return self._help(e.op, kind, a, b)
        text = f"({a} {_INFIX[e.op]} {b})"
        if is_float(kind) or kind == "bool" or e.dtype == "bool":
            return text
        if e.op in _WRAPPING and kind in self.dialect.unsigned:
            u = self.dialect.unsigned[kind]
            return f"({self.type(kind)})(({u}){a} {_INFIX[e.op]} ({u}){b})"
        return f"({self.type(kind)}){text}"

    def _help(self, op: str, kind: str, *arguments: str) -> str:
        kind = "f32" if kind == "f16" else kind
        self.helpers.add((f"{op}_{'float' if is_float(kind) else 'int'}", kind))
        return f"ts_{op}_{kind}({', '.join(arguments)})"

    # -- memory --------------------------------------------------------------------------------------------------------

    def load(self, array: Array, index: str) -> str:
        name = array_name(array.name)
        if array.dtype == "f16" and array.scope != PRIVATE:
            return self.dialect.load_half.format(pointer=name, index=index, space=self._space(array))
        return f"{name}[{index}]"

    def store(self, array: Array, index: str, value: str) -> str:
        name = array_name(array.name)
        if array.dtype == "f16" and array.scope != PRIVATE:
            return self.dialect.store_half.format(pointer=name, index=index, value=value, space=self._space(array))
        return f"{name}[{index}] = {value};"

    def _space(self, array: Array) -> str:
        return self.dialect.spaces.get(array.scope, "")
