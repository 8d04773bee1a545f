"""Whole numbers that count, in LLVM's text: loop variables and addresses, in 32 bits, each computed once, constants beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorsmith.backends.cpu.codegen.irtext import Function, Value
from tensorsmith.backends.gpu.printers.expressions import fits_int
from tensorsmith.lang.affine import Bounds
from tensorsmith.lang.expr import Binary, Const, Expr, Select, Var

Number = int | Value

_OPS = {"add": "add nsw", "sub": "sub nsw", "mul": "mul nsw"}
_TESTS = {"lt": "slt", "le": "sle", "eq": "eq", "ne": "ne"}


class Numbers:
    """`variables` are what loop variables are at the moment; what was computed is known until its loop or branch is left."""

    def __init__(
        self, function: Function, counts: Mapping[str, int], divide: tuple[str, str], value: Callable[[Expr], Value]
    ) -> None:
        self.f, self.divide, self.value = function, divide, value
        self.bounds = Bounds({name: (0, max(0, n - 1)) for name, n in counts.items()})
        self.variables: dict[str, Number] = {}
        self._known: list[dict[tuple[str, ...], Value]] = [{}]
        self._counting: dict[Expr, bool] = {}

    def enter(self) -> None:
        self._known.append({})

    def leave(self) -> None:
        self._known.pop()

    def counts(self, e: Expr) -> bool:
        """Whether an expression is made of loop variables, and 32 bits have room for all of it."""
        if e not in self._counting:
            self._counting[e] = fits_int(e, self.bounds)
        return self._counting[e]

    def once(self, key: tuple[str, ...], instruction: str, kind: str) -> Value:
        """An instruction, or its result where it was written before."""
        for known in self._known:
            if key in known:
                return known[key]
        found = self._known[-1][key] = self.f.op(instruction, kind)
        return found

    def count(self, e: Expr) -> Number:
        """A number that counts."""
        if not self.counts(e):
            wide = self.value(e)
            return self.once(("trunc", wide.text), f"trunc {wide} to i32", "i32")
        if isinstance(e, Const):
            return int(e.value)
        if isinstance(e, Var):
            return self.variables[e.name]
        if isinstance(e, Select):
            holds = self.compared(e.cond) if isinstance(e.cond, Binary) and self.counts(e.cond.a) else self.value(e.cond)
            a, b = self.count(e.a), self.count(e.b)
            if isinstance(holds, bool):
                return a if holds else b
            key = ("select", holds.text, _text(a), _text(b))
            return self.once(key, f"select i1 {holds.text}, i32 {_text(a)}, i32 {_text(b)}", "i32")
        assert isinstance(e, Binary), e
        return self._binary(e, self.count(e.a), self.count(e.b))

    def _binary(self, e: Binary, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return _folded(e.op, a, b)
        if e.op in ("max", "min"):
            test = "sgt" if e.op == "max" else "slt"
            better = self.once((test, _text(a), _text(b)), f"icmp {test} i32 {_text(a)}, {_text(b)}", "bool")
            key = (e.op, _text(a), _text(b))
            return self.once(key, f"select i1 {better.text}, i32 {_text(a)}, i32 {_text(b)}", "i32")
        if e.op in ("floordiv", "mod"):
            return self._divided(e, a, b)
        if e.op == "add" and isinstance(a, int) and isinstance(b, Value):
            return self.added(b, a)
        if e.op == "add" and isinstance(b, int) and isinstance(a, Value):
            return self.added(a, b)
        if e.op == "mul" and 1 in (a, b):
            return b if a == 1 else a
        if e.op == "mul" and 0 in (a, b):
            return 0
        return self.once((e.op, _text(a), _text(b)), f"{_OPS[e.op]} i32 {_text(a)}, {_text(b)}", "i32")

    def _divided(self, e: Binary, a: Number, b: Number) -> Number:
        low, positive = self.bounds.range(e.a), self.bounds.range(e.b)
        assert low is not None and positive is not None
        if b == 1:
            return a if e.op == "floordiv" else 0
        if low[0] >= 0 and positive[0] > 0:
            word = self.divide[0 if e.op == "floordiv" else 1]
            return self.once((word, _text(a), _text(b)), f"{word} i32 {_text(a)}, {_text(b)}", "i32")
        wide = self.value(Binary("mul", e, Const(1, "i64")))
        return self.once(("trunc", wide.text), f"trunc {wide} to i32", "i32")

    def added(self, a: Value, n: int) -> Number:
        if n == 0:
            return a
        return self.once(("add", a.text, str(n)), f"add nsw i32 {a.text}, {n}", "i32")

    def compared(self, e: Binary) -> Value | bool:
        """A comparison of numbers that count."""
        a, b = self.count(e.a), self.count(e.b)
        if isinstance(a, int) and isinstance(b, int):
            return {"lt": a < b, "le": a <= b, "eq": a == b, "ne": a != b}[e.op]
        return self.once((e.op, _text(a), _text(b)), f"icmp {_TESTS[e.op]} i32 {_text(a)}, {_text(b)}", "bool")


def _text(number: Number) -> str:
    return str(number) if isinstance(number, int) else number.text


def _folded(op: str, a: int, b: int) -> int:
    if op in ("floordiv", "mod"):
        if not b:
            return 0
        return a // b if op == "floordiv" else a % b
    return {"add": a + b, "sub": a - b, "mul": a * b, "max": max(a, b), "min": min(a, b)}[op]
