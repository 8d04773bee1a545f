"""Instructions that multiply several small integers in every lane of 32 bits, and what they mean.

    vpdpbusd  c, a, b      c[n] + a[4n] * b[4n] + ... + a[4n + 3] * b[4n + 3]      bytes, of a u8, of b i8
    vpmaddwd  a, b         a[2n] * b[2n] + a[2n + 1] * b[2n + 1]                   of i16; neither can overflow
    vpmaddubsw             as the first, for b of seven bits (`lang/small.py`), whose products fit in pairs in 16: these are added
                           up by vpmaddwd, times one, and to c

Code calls each by a function of its own, whose body is LLVM's intrinsic. `by_meaning` puts the same in plain operations into their
place: a kernel for a machine that this one is not then runs here, and does what it would do there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.expr import Expr
from tensorsmith.lang.small import small_load

SMALL = "i7"  # what bytes are called here of which a definition says that they are small
OTHER = {"i8": "u8", "u8": "i8"}  # what a byte becomes that is moved by 128


@dataclass(frozen=True)
class Instruction:
    """One instruction on vectors of so many lanes of 32 bits."""

    name: str  # as assemblers write it
    lanes: int
    types: tuple[str, str]  # of the factors
    adds: bool  # to its first operand; else there is none
    intrinsic: str  # LLVM's
    pairs: Instruction | None = None  # what adds up sums of two products in 16 bits, where the intrinsic gives those

    @property
    def pieces(self) -> int:
        """Factors that a lane takes."""
        return 2 if self.types[0] == "i16" else 4

    @property
    def function(self) -> str:
        """What the code calls."""
        return f"{self.name}.{self.lanes}"

    @property
    def result(self) -> str:
        return f"<{self.lanes} x i32>"

    @property
    def operand(self) -> str:
        return f"<{self.pieces * self.lanes} x i{32 // self.pieces}>"

    @property
    def declarations(self) -> tuple[str, ...]:
        """Of LLVM's intrinsics."""
        if self.pairs is not None:
            return f"declare {self._pair} @{self.intrinsic}({self.operand}, {self.operand})", *self.pairs.declarations
        types = ([self.result] if self.adds else []) + [self.operand, self.operand]
        return (f"declare {self.result} @{self.intrinsic}({', '.join(types)})",)

    @property
    def _pair(self) -> str:
        """What the intrinsic gives that adds two products in 16 bits."""
        return f"<{2 * self.lanes} x i16>"

    def definition(self) -> str:
        """The function that code calls, by the intrinsic."""
        if self.pairs is not None:
            lines = [
                f"%p = call {self._pair} @{self.intrinsic}({self.operand} %a, {self.operand} %b)",
                f"%s = call {self.result} @{self.pairs.intrinsic}({self._pair} %p, {self._pair} splat (i16 1))",
                f"%r = add {self.result} %c, %s",
                f"ret {self.result} %r",
            ]
            return "\n".join([self._head(), *(f"  {line}" for line in lines), "}"])
        call = [f"{self.result} %c"] * self.adds + [f"{self.operand} %a", f"{self.operand} %b"]
        body = [f"%r = call {self.result} @{self.intrinsic}({', '.join(call)})", f"ret {self.result} %r"]
        return "\n".join([self._head(), *(f"  {line}" for line in body), "}"])

    def meaning(self) -> str:
        """The same function in plain operations."""
        wide = f"<{self.pieces * self.lanes} x i32>"
        lines = [f"%{x}w = {'zext' if t == 'u8' else 'sext'} {self.operand} %{x} to {wide}" for x, t in zip("ab", self.types)]
        lines.append(f"%p = mul {wide} %aw, %bw")
        terms = [f"%p{n}" for n in range(self.pieces)]
        for n, term in enumerate(terms):
            picks = ", ".join(f"i32 {self.pieces * lane + n}" for lane in range(self.lanes))
            lines.append(f"{term} = shufflevector {wide} %p, {wide} poison, <{self.lanes} x i32> <{picks}>")
        if self.pairs is not None:
            terms = [self._saturated(lines, a, b) for a, b in zip(terms[::2], terms[1::2])]
        total = "%c" if self.adds else "zeroinitializer"
        for n, term in enumerate(terms):
            lines.append(f"%s{n} = add {self.result} {total}, {term}")
            total = f"%s{n}"
        lines.append(f"ret {self.result} {total}")
        return "\n".join([self._head(), *(f"  {line}" for line in lines), "}"])

    def _saturated(self, lines: list[str], a: str, b: str) -> str:
        """The sum of two products in 16 bits, in lanes of 32."""
        lines.append(f"{a}s = add {self.result} {a}, {b}")
        for before, after, test, limit in (("s", "t", "slt", 32767), ("t", "u", "sgt", -32768)):
            lines.append(f"{a}{test} = icmp {test} {self.result} {a}{before}, splat (i32 {limit})")
            on = f"<{self.lanes} x i1> {a}{test}"
            lines.append(f"{a}{after} = select {on}, {self.result} {a}{before}, {self.result} splat (i32 {limit})")
        return f"{a}u"

    def _head(self) -> str:
        given = [f"{self.result} %c"] * self.adds + [f"{self.operand} %a", f"{self.operand} %b"]
        return f'define internal {self.result} @"{self.function}"({", ".join(given)}) alwaysinline nounwind {{'


def _dots(name: str, types: tuple[str, str], intrinsics: dict[int, str]) -> tuple[Instruction, ...]:
    return tuple(Instruction(name, lanes, types, True, intrinsic) for lanes, intrinsic in intrinsics.items())


_VPDPBUSD = _dots("vpdpbusd", ("u8", "i8"), {n: f"llvm.x86.avx512.vpdpbusd.{32 * n}" for n in (4, 8, 16)})
_SDOT, _UDOT, _USDOT = (
    _dots(name, types, {n: f"llvm.aarch64.neon.{name}.v{n}i32.v{4 * n}i8" for n in (2, 4)})
    for name, types in (("sdot", ("i8", "i8")), ("udot", ("u8", "u8")), ("usdot", ("u8", "i8")))
)
_VPMADDWD = tuple(
    Instruction("vpmaddwd" if n > 4 else "pmaddwd", n, ("i16", "i16"), False, f"llvm.x86.{name}")
    for n, name in ((4, "sse2.pmadd.wd"), (8, "avx2.pmadd.wd"), (16, "avx512.pmaddw.d.512"))
)
_VPMADDUBSW = tuple(
    Instruction(f"{'v' if n > 4 else ''}pmaddubsw", n, ("u8", SMALL), True, f"llvm.x86.{name}", pair)
    for n, name, pair in zip((4, 8, 16), ("ssse3.pmadd.ub.sw.128", "avx2.pmadd.ub.sw", "avx512.pmaddubs.w.512"), _VPMADDWD)
)
INSTRUCTIONS = (*_VPDPBUSD, *_SDOT, *_UDOT, *_USDOT, *_VPMADDWD, *_VPMADDUBSW)


def dots(target: CpuTarget) -> tuple[Instruction, ...]:
    """The instructions of a machine that multiply bytes by bytes."""
    if target.is_x86:
        if target.has("avx512vnni") and target.has("avx512vl"):
            return _VPDPBUSD
        return tuple(i for i in _VPDPBUSD if i.lanes < 16) if target.has("avxvnni") else ()
    dotprod, i8mm = target.is_aarch64 and target.has("dotprod"), target.is_aarch64 and target.has("i8mm")
    return (*(_SDOT + _UDOT if dotprod else ()), *(_USDOT if i8mm else ()))


def pairs(target: CpuTarget) -> tuple[Instruction, ...]:
    """Those that multiply pairs of i16, of which any two bytes are a pair."""
    if not target.is_x86:
        return ()
    having = {4: True, 8: target.has("avx2"), 16: target.has("avx512bw")}
    return tuple(i for i in _VPMADDWD if having[i.lanes])


def small_dots(target: CpuTarget) -> tuple[Instruction, ...]:
    """Those that multiply bytes by small ones, where there is nothing for any bytes."""
    if dots(target) or not (target.has("ssse3") or target.has("avx2")):
        return ()
    return tuple(i for i in _VPMADDUBSW if i.pairs in pairs(target))


def kind(e: Expr) -> str:
    """The type of a factor, or `SMALL`."""
    return e.dtype if small_load(e) is None else SMALL


def dot(target: CpuTarget, lanes: int, one: str, other: str) -> tuple[Instruction, bool] | None:
    """What multiplies bytes of those kinds, and whether it takes them the other way round; None where there is nothing."""
    for found in (*dots(target), *small_dots(target)):
        for types in ((one, other), (other, one)):
            if found.lanes == lanes and all(a == b or (a == SMALL and b == "i8") for a, b in zip(types, found.types)):
                return found, types != (one, other)
    return None


def moved(target: CpuTarget, lanes: int, one: str, other: str) -> Instruction | None:
    """What multiplies them if one is moved by 128, and nothing does as they are."""
    if one not in OTHER or dot(target, lanes, one, other) is not None:
        return None
    found = dot(target, lanes, OTHER[one], other)
    return None if found is None else found[0]


def by_meaning(text: str) -> str:
    """The text of a module with the meaning of every instruction in place of the instruction; so with values that LLVM is kept from
    looking into, for which machines have other names of registers."""
    for instruction in INSTRUCTIONS:
        found = re.compile(rf'define internal [^@\n]*@"{re.escape(instruction.function)}"\(.*?\n\}}', re.DOTALL)
        text = found.sub(instruction.meaning(), text)  # which has no backslash
        for declaration in instruction.declarations:
            text = text.replace(f"{declaration}\n", "")
    return re.sub(r'call (<[^>]*>) asm "", "=[a-z],0"\(<[^>]*> (%\w+)\)', r"freeze \1 \2", text)
