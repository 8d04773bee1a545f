"""One instruction that multiplies several small numbers in every lane of 32 bits, and what it means in plain operations.

Code calls it by a function of its own, whose body is LLVM's intrinsic (`definition`). `meaning` is the same function without it.
What every sort of them has is here, and those on integers; `bf16_dots` has those on bf16.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

_NEON_LANES = 4  # of 32 bits; vectors with more of them are scalable ones on AArch64


@dataclass(frozen=True)
class Instruction:
    """One instruction on vectors of so many lanes of 32 bits."""

    name: str  # as assemblers write it
    lanes: int
    types: tuple[str, str]  # of the factors
    adds: bool  # to its first operand; else there is none
    intrinsic: str  # LLVM's
    pairs: Instruction | None = None  # what adds up sums of two products in 16 bits, where the intrinsic gives those
    scalable: bool = False  # the intrinsic takes vectors of a length that the code does not say
    matrix: bool = False  # it multiplies two rows by two columns

    sums = "i32"  # the type of the results

    @property
    def pieces(self) -> int:
        """Factors that a lane takes; of a matrix instruction, that a row or a column has."""
        return (2 if self.matrix else 1) * 32 // self._factor_bits

    @property
    def _factor_bits(self) -> int:
        return 16 if self.types[0] == "i16" else 8

    @property
    def function(self) -> str:
        """What the code calls."""
        return f"{self.name}.{self.lanes}"

    @property
    def result(self) -> str:
        return f"<{self.lanes} x i32>"

    @property
    def operand(self) -> str:
        return f"<{32 // self._factor_bits * self.lanes} x i{self._factor_bits}>"

    @property
    def first(self) -> str:
        """The type of the first factors: of a matrix instruction two rows of 64 bits, for all columns."""
        return f"<{128 // self._factor_bits} x i{self._factor_bits}>" if self.matrix else self.operand

    @property
    def declarations(self) -> tuple[str, ...]:
        """Of LLVM's intrinsics."""
        if self.pairs is not None:
            return f"declare {self._pair} @{self.intrinsic}({self.operand}, {self.operand})", *self.pairs.declarations
        result, factor = self._taken(self.result), self._factor(self._taken(self.operand))
        types = ([result] if self.adds else []) + [factor, factor]
        return (f"declare {result} @{self.intrinsic}({', '.join(types)})", *(self._conversions() if self.scalable else ()))

    @property
    def _pair(self) -> str:
        """What the intrinsic gives that adds two products in 16 bits."""
        return f"<{2 * self.lanes} x i16>"

    def _factor(self, vector: str) -> str:
        """What the intrinsic calls a vector of factors that code has as integers."""
        return vector

    def _taken(self, vector: str) -> str:
        """The vector that the intrinsic takes for one of ours."""
        if not self.scalable:
            return vector
        count, element = vector[1:-1].split(" x ")
        return f"<vscale x {int(count) * _NEON_LANES // self.lanes} x {element}>"

    def _conversions(self) -> tuple[str, ...]:
        """Declarations of what makes scalable vectors of ours and back; each has just as many elements, so that nothing is done."""
        wide = self._taken(self.operand)
        whole = {self.result: self._taken(self.result), self.operand: wide, self.first: wide}
        into = [f"declare {s} @{_insert(v, s)}({s}, {v}, i64)" for v, s in whole.items()]
        again = [f"declare {wide} @{_repeated(wide)}({wide}, i64)"] if self.matrix else []
        back = self._taken(self.result)
        return (*into, *again, f"declare {self.result} @{_extract(self.result, back)}({back}, i64)")

    def definition(self) -> str:
        """The function that code calls, by the intrinsic."""
        if self.pairs is not None:
            lines = [
                f"%p = call {self._pair} @{self.intrinsic}({self.operand} %a, {self.operand} %b)",
                f"%s = call {self.result} @{self.pairs.intrinsic}({self._pair} %p, {self._pair} splat (i16 1))",
                f"%r = add {self.result} %c, %s",
                f"ret {self.result} %r",
            ]
            return self._written(lines)
        lines, call = [], []
        for name, vector in ([("c", self.result)] if self.adds else []) + [("a", self.first), ("b", self.operand)]:
            taken, value = self._taken(self.result if name == "c" else self.operand), f"%{name}"
            if self.scalable:
                lines.append(f"%{name}.s = call {taken} @{_insert(vector, taken)}({taken} poison, {vector} {value}, i64 0)")
                value = f"%{name}.s"
                if name == "a" and self.matrix:
                    lines.append(f"%a.q = call {taken} @{_repeated(taken)}({taken} %a.s, i64 0)")
                    value = "%a.q"
            factor = taken if name == "c" else self._factor(taken)
            if factor != taken:
                lines.append(f"%{name}.f = bitcast {taken} {value} to {factor}")
                value = f"%{name}.f"
            call.append(f"{factor} {value}")
        taken = self._taken(self.result)
        lines.append(f"%r = call {taken} @{self.intrinsic}({', '.join(call)})")
        if self.scalable:
            lines += [f"%r.f = call {self.result} @{_extract(self.result, taken)}({taken} %r, i64 0)", f"ret {self.result} %r.f"]
        else:
            lines.append(f"ret {self.result} %r")
        return self._written(lines)

    def meaning(self) -> str:
        """The same function in plain operations."""
        lines, terms = [], [f"%p{n}" for n in range(self.pieces)]
        for n, term in enumerate(terms):
            for x, t in zip("ab", self.types):
                narrow = f"<{self.lanes} x i{self._factor_bits}>"
                given = self.first if x == "a" else self.operand
                lines.append(f"%{x}{n} = shufflevector {given} %{x}, {given} poison, {self._places(x, n)}")
                lines.append(f"%{x}w{n} = {'zext' if t == 'u8' else 'sext'} {narrow} %{x}{n} to {self.result}")
            lines.append(f"{term} = mul {self.result} %aw{n}, %bw{n}")
        if self.pairs is not None:
            terms = [self._saturated(lines, a, b) for a, b in zip(terms[::2], terms[1::2])]
        total = "%c" if self.adds else "zeroinitializer"
        for n, term in enumerate(terms):
            lines.append(f"%s{n} = add {self.result} {total}, {term}")
            total = f"%s{n}"
        lines.append(f"ret {self.result} {total}")
        return self._written(lines)

    def _places(self, operand: str, n: int) -> str:
        """Where factor `n` of every lane's sum is in an operand: lane by lane; or of two rows and two columns in every four lanes,
        which have the results of the first row and then those of the second."""
        if self.matrix:
            which = [lane % 4 // 2 if operand == "a" else 2 * (lane // 4) + lane % 2 for lane in range(self.lanes)]
        else:
            which = [*range(self.lanes)]
        return f"<{self.lanes} x i32> <{', '.join(f'i32 {self.pieces * w + n}' for w in which)}>"

    def _saturated(self, lines: list[str], a: str, b: str) -> str:
        """The sum of two products in 16 bits, in lanes of 32."""
        lines.append(f"{a}s = add {self.result} {a}, {b}")
        for before, after, test, limit in (("s", "t", "slt", 32767), ("t", "u", "sgt", -32768)):
            lines.append(f"{a}{test} = icmp {test} {self.result} {a}{before}, splat (i32 {limit})")
            on = f"<{self.lanes} x i1> {a}{test}"
            lines.append(f"{a}{after} = select {on}, {self.result} {a}{before}, {self.result} splat (i32 {limit})")
        return f"{a}u"

    def _written(self, lines: list[str]) -> str:
        given = [f"{self.result} %c"] * self.adds + [f"{self.first} %a", f"{self.operand} %b"]
        head = f'define internal {self.result} @"{self.function}"({", ".join(given)}) alwaysinline nounwind {{'
        return "\n".join([head, *(f"  {line}" for line in lines), "}"])


def _insert(vector: str, scalable: str) -> str:
    """LLVM's name of what makes a scalable vector of another one."""
    return f"llvm.vector.insert.{_spelled(scalable)}.{_spelled(vector)}"


def _repeated(scalable: str) -> str:
    """LLVM's name of what has the first 128 bits of a scalable vector in all of it."""
    return f"llvm.aarch64.sve.dupq.lane.{_spelled(scalable)}"


def _extract(vector: str, scalable: str) -> str:
    return f"llvm.vector.extract.{_spelled(vector)}.{_spelled(scalable)}"


@functools.cache
def _spelled(vector: str) -> str:
    """`<8 x float>` is v8f32 in names of intrinsics, `<vscale x 4 x i32>` is nxv4i32."""
    *_, count, element = vector[1:-1].split(" x ")
    return f"{'nxv' if 'vscale' in vector else 'v'}{count}{'f32' if element == 'float' else element}"
