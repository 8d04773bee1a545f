"""Formulas on vectors as LLVM IR text: Python's operators on terms write instructions, one after the other."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Format:
    """An IEEE type: LLVM's names of it and of the integer of its width; bits in all and of the mantissa; bias."""

    name: str
    float_type: str
    int_type: str
    bits: int
    mantissa: int
    bias: int

    @property
    def exponent_mask(self) -> int:
        return (2 * self.bias + 1) << self.mantissa

    @property
    def magic(self) -> float:
        """Adding it to a small number rounds that number to an integer, held in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def largest(self) -> float:
        return (2.0 - 2.0**-self.mantissa) * 2.0**self.bias


F32 = Format("f32", "float", "i32", 32, 23, 127)
F64 = Format("f64", "double", "i64", 64, 52, 1023)
FORMATS = {"f32": F32, "f64": F64}
INF = float("inf")
NAN = float("nan")

Operand = Union["Term", float, int]


@dataclass(frozen=True, eq=False)
class Term:
    """A value in the function under construction. `type` is the type of one lane; arithmetic emits an instruction.

    Python numbers on either side of an operator become constants of the same type.
    """

    formula: Formula
    text: str
    type: str

    def _emit(self, float_op: str, int_op: str, left: Operand, right: Operand) -> Term:
        return self.formula.binary(float_op if self.type in ("float", "double") else int_op, self.type, left, right)

    def __add__(self, other: Operand) -> Term:
        return self._emit("fadd", "add", self, other)

    def __radd__(self, other: Operand) -> Term:
        return self._emit("fadd", "add", other, self)

    def __sub__(self, other: Operand) -> Term:
        return self._emit("fsub", "sub", self, other)

    def __rsub__(self, other: Operand) -> Term:
        return self._emit("fsub", "sub", other, self)

    def __mul__(self, other: Operand) -> Term:
        return self._emit("fmul", "mul", self, other)

    def __rmul__(self, other: Operand) -> Term:
        return self._emit("fmul", "mul", other, self)

    def __truediv__(self, other: Operand) -> Term:
        return self.formula.binary("fdiv", self.type, self, other)

    def __rtruediv__(self, other: Operand) -> Term:
        return self.formula.binary("fdiv", self.type, other, self)

    def __and__(self, other: Operand) -> Term:
        return self.formula.binary("and", self.type, self, other)

    def __or__(self, other: Operand) -> Term:
        return self.formula.binary("or", self.type, self, other)

    def __xor__(self, other: Operand) -> Term:
        return self.formula.binary("xor", self.type, self, other)

    def __lshift__(self, other: Operand) -> Term:
        return self.formula.binary("shl", self.type, self, other)

    def __rshift__(self, other: Operand) -> Term:
        """The logical shift: zeros come in from the left."""
        return self.formula.binary("lshr", self.type, self, other)

    def __neg__(self) -> Term:
        return self.formula.emit(self.type, f"fneg {self.formula.typed(self)}")

    def __lt__(self, other: Operand) -> Term:
        return self.formula.compare("olt", "slt", self, other)

    def __gt__(self, other: Operand) -> Term:
        return self.formula.compare("ogt", "sgt", self, other)

    def equals(self, other: Operand) -> Term:
        return self.formula.compare("oeq", "eq", self, other)

    def differs(self, other: Operand) -> Term:
        return self.formula.compare("une", "ne", self, other)


class Formula:
    """The instructions of one function on `lanes` lanes (one lane: scalars), and the intrinsics they need."""

    def __init__(self, lanes: int, fmt: Format) -> None:
        self.lanes = lanes
        self.format = fmt
        self.lines: list[str] = []
        self.declares: set[str] = set()
        self._count = 0

    def vector(self, type: str) -> str:
        return type if self.lanes == 1 else f"<{self.lanes} x {type}>"

    def const(self, value: float, type: str) -> Term:
        if type == "float":
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        if type in ("float", "double"):
            text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        else:
            bits = int(type[1:])
            wrapped = int(value) % 2**bits
            text = str(wrapped - 2**bits if wrapped >> (bits - 1) else wrapped)
        return Term(self, text if self.lanes == 1 else f"splat ({type} {text})", type)

    def typed(self, value: Term) -> str:
        return f"{self.vector(value.type)} {value.text}"

    def emit(self, type: str, instruction: str) -> Term:
        self._count += 1
        self.lines.append(f"  %v{self._count} = {instruction}")
        return Term(self, f"%v{self._count}", type)

    def _as(self, type: str, operand: Operand) -> Term:
        return operand if isinstance(operand, Term) else self.const(operand, type)

    def binary(self, op: str, type: str, left: Operand, right: Operand) -> Term:
        a, b = self._as(type, left), self._as(type, right)
        return self.emit(type, f"{op} {self.typed(a)}, {b.text}")

    def compare(self, float_order: str, int_order: str, left: Term, right: Operand) -> Term:
        is_float = left.type in ("float", "double")
        op = f"fcmp {float_order}" if is_float else f"icmp {int_order}"
        return self.emit("i1", f"{op} {self.typed(left)}, {self._as(left.type, right).text}")

    def select(self, condition: Term, yes: Operand, no: Operand) -> Term:
        type = next((v.type for v in (yes, no) if isinstance(v, Term)), self.format.float_type)
        a, b = self._as(type, yes), self._as(type, no)
        return self.emit(type, f"select {self.typed(condition)}, {self.typed(a)}, {self.typed(b)}")

    def at_most(self, x: Term, bound: Operand) -> Term:
        """min(x, bound), NaN stays NaN. In this operand order x86 does it in one instruction."""
        bound = self._as(x.type, bound)
        return self.select(bound < x, bound, x)

    def at_least(self, x: Term, bound: Operand) -> Term:
        bound = self._as(x.type, bound)
        return self.select(bound > x, bound, x)

    def convert(self, op: str, x: Term, type: str) -> Term:
        """`op` is LLVM's conversion: bitcast, zext, fpext, sitofp, ..."""
        return self.emit(type, f"{op} {self.typed(x)} to {self.vector(type)}")

    def bits(self, x: Term) -> Term:
        return self.convert("bitcast", x, (F32 if x.type == "float" else F64).int_type)

    def floats(self, x: Term) -> Term:
        return self.convert("bitcast", x, (F32 if x.type == "i32" else F64).float_type)

    def intrinsic(self, name: str, *args: Term) -> Term:
        type = args[0].type
        suffix = type.replace("float", "f32").replace("double", "f64")
        full = f"@llvm.{name}.{suffix if self.lanes == 1 else f'v{self.lanes}{suffix}'}"
        vector = self.vector(type)
        self.declares.add(f"declare {vector} {full}({', '.join([vector] * len(args))})")
        return self.emit(type, f"call {vector} {full}({', '.join(map(self.typed, args))})")

    def fma(self, x: Operand, y: Operand, z: Operand) -> Term:
        type = next(v.type for v in (x, y, z) if isinstance(v, Term))
        return self.intrinsic("fma", *(self._as(type, v) for v in (x, y, z)))

    def abs(self, x: Term) -> Term:
        return self.intrinsic("fabs", x)

    def sign_bit(self, x: Term) -> Term:
        ints = self.bits(x)
        return ints & (1 << (int(ints.type[1:]) - 1))

    def flip_sign(self, x: Term, sign: Term) -> Term:
        """`sign`: an integer, zero but for the sign bit."""
        return self.floats(self.bits(x) ^ sign)

    def polynomial(self, x: Term, coefficients: Sequence[float]) -> Term:
        """Horner's scheme, `coefficients` from the constant term up. Independent vectors hide its latency."""
        acc: Operand = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            acc = self.fma(acc, x, c)
        return self._as(x.type, acc)

    def if_any(self, mask: Term, rare: Callable[[], Sequence[Term]], usual: Sequence[Term]) -> list[Term]:
        """`rare()` if any lane of `mask` is set, else `usual`: a branch on the whole vector. Once per function."""
        some = mask
        if self.lanes > 1:
            name = f"@llvm.vector.reduce.or.v{self.lanes}i1"
            self.declares.add(f"declare i1 {name}(<{self.lanes} x i1>)")
            some = self.emit("i1", f"call i1 {name}({self.typed(mask)})")
        weights = '!prof !{!"branch_weights", i32 1, i32 2000}'
        self.lines += [f"  br i1 {some.text}, label %rare, label %done, {weights}", "rare:"]
        values = rare()
        self.lines += ["  br label %done", "done:"]
        return [
            self.emit(v.type, f"phi {self.vector(v.type)} [ {v.text}, %rare ], [ {u.text}, %entry ]") for v, u in zip(values, usual)
        ]
