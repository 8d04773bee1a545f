"""Instructions that multiply two bf16 by two in every lane, and add the products to an f32.

    vdpbf16ps c, a, b      (c[n] + a[2n + 1] * b[2n + 1]) + a[2n] * b[2n]           each sum rounded once, to the nearest
    bfdot     c, a, b      c[n] + (a[2n] * b[2n] + a[2n + 1] * b[2n + 1])           each sum rounded to odd
    bfmmla    c, a, b      two rows of four by two columns of four, each result by two such steps

A product of two bf16 has 16 binary digits and is never rounded. So a sum of them is as good as one of f32 in another order: of
`vdpbf16ps` each addition rounds as a fused multiply-add does, of `bfdot` it is off by less than a unit in the last place instead of
half of one. What is below the normal numbers counts as zero in both, factors and sums: that is the one thing in which they differ
from a definition. To round to odd is to take, of the two numbers around the exact result, the one whose last digit is 1; what is
exact stays. (Intel, Architecture Instruction Set Extensions Programming Reference, VDPBF16PS; Arm, Architecture Reference Manual,
BFDOT, where FEAT_EBF16 is not there or FPCR.EBF is 0, as systems leave it.)
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.backends.cpu.codegen.arith import Arithmetic, Fused
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, const
from tensorsmith.backends.cpu.instruction import Instruction

_LEAST = 2.0**-126  # the least normal f32
_TOO_LARGE = 2.0**128


@dataclass(frozen=True)
class Bf16Dot(Instruction):
    """One of them; factors come as the integers that their bits are."""

    to_odd: bool = False  # how sums are rounded; both products are added to each other first then

    sums = "f32"

    @property
    def _factor_bits(self) -> int:
        return 16

    @property
    def result(self) -> str:
        return f"<{self.lanes} x float>"

    def _factor(self, vector: str) -> str:
        return vector.replace("i16", "bfloat")

    def meaning(self) -> str:
        plain = _Plain(self.lanes)
        given = {"a": f"{self.first} %a", "b": f"{self.operand} %b"}
        a, b = ([plain.factor(given[x], self._places(x, n)) for n in range(self.pieces)] for x in "ab")
        total = plain.flushed(Value("%c", "f32", self.lanes))
        for n in range(0, self.pieces, 2):
            if self.to_odd:
                both = plain.odd_sum(plain.product(a[n], b[n]), plain.product(a[n + 1], b[n + 1]))
                total = plain.odd_sum(total, both)
            else:
                for k in (n + 1, n):
                    total = plain.flushed(plain.arith.fma(a[k], b[k], total))
        return self._written([*(line.strip() for line in plain.f.lines), f"ret {total}"])


class _Plain:
    """Writes what they are made of, in operations that every machine has."""

    def __init__(self, lanes: int) -> None:
        self.f, self.lanes = Function(""), lanes
        self.arith = Arithmetic(self.f, {}, set(), Fused())  # LLVM declares its own functions by itself

    def _op(self, text: str, name: str) -> Value:
        return self.f.op(text, name, self.lanes)

    def factor(self, operand: str, places: str) -> Value:
        """The factors at those places, one for every lane, as f32."""
        narrow = self._op(f"shufflevector {operand}, {operand.split('%')[0]} poison, {places}", "bf16")
        return self.flushed(self.arith.cast("f32", narrow))

    def flushed(self, v: Value) -> Value:
        """Zero, with the same sign, in place of what is below the normal numbers of f32."""
        size = self.arith.overloaded("llvm.fabs", v)
        small = self.arith.compare("lt", size, const(_LEAST, v.dtype, self.lanes))
        zero = self.arith.overloaded("llvm.copysign", const(0.0, v.dtype, self.lanes), v)
        return self.arith.select(small, zero, v)

    def product(self, a: Value, b: Value) -> Value:
        """In f32, which has all its digits; infinity where it is too large."""
        exact = self.arith.binary("mul", self.arith.cast("f64", a), self.arith.cast("f64", b))
        return self.arith.cast("f32", self.flushed(exact))

    def odd_sum(self, one: Value, other: Value) -> Value:
        """The sum of two f32, rounded to odd: in f64 first, which has digits to spare, and then in f32."""
        a, b = (self.arith.cast("f64", v) for v in (one, other))
        near = self._op(f"fadd {a}, {b.text}", "f64")
        # what the nearest one lacks is a number too (Knuth's TwoSum)
        of_b = self._op(f"fsub {near}, {a.text}", "f64")
        of_a = self._op(f"fsub {near}, {of_b.text}", "f64")
        lacks_a, lacks_b = self._op(f"fsub {a}, {of_a.text}", "f64"), self._op(f"fsub {b}, {of_b.text}", "f64")
        rest = self._op(f"fadd {lacks_a}, {lacks_b.text}", "f64")
        zero = const(0.0, "f64", self.lanes)
        lost = self._op(f"fcmp one {rest}, {zero.text}", "bool")
        above, more = (self.arith.compare("lt", zero, v) for v in (near, rest))
        away = self.arith.binary("and", lost, self._op(f"xor {above}, {more.text}", "bool"))
        bits = self.arith.bitcast("i64", near)
        down = self.arith.binary("sub", bits, self.arith.cast("i64", away))
        exact = self.arith.bitcast("f64", self.arith.binary("bitor", down, self.arith.cast("i64", lost)))
        large = self.arith.compare("le", const(_TOO_LARGE, "f64", self.lanes), self.arith.overloaded("llvm.fabs", exact))
        return self.flushed(self.arith.select(large, self.arith.cast("f32", exact), self.arith.rounded_to_odd(exact)))
