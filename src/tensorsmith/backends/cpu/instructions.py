"""Instructions that multiply several small integers in every lane of 32 bits, and what they mean.

    vpdpbusd  c, a, b      c[n] + a[4n] * b[4n] + ... + a[4n + 3] * b[4n + 3]      bytes, of a u8, of b i8
    vpmaddwd  a, b         a[2n] * b[2n] + a[2n + 1] * b[2n + 1]                   of i16; neither can overflow

Code calls each by a function of its own, whose body is LLVM's intrinsic. `by_meaning` puts the same in plain operations into their
place: a kernel for a machine that this one is not then runs here, and does what it would do there.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.expr import variables
from tensorsmith.lang.workload import Stage
from tensorsmith.program.grouping import factors, group_axis
from tensorsmith.space.sketch.rewrite import Widen

_USES = 4  # of a byte, from which on it is stored as i16


@dataclass(frozen=True)
class Instruction:
    """One instruction on vectors of so many lanes of 32 bits."""

    name: str  # as assemblers write it
    lanes: int
    types: tuple[str, str]  # of the factors
    adds: bool  # to its first operand; else there is none
    intrinsic: str  # LLVM's

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
    def declaration(self) -> str:
        """Of LLVM's intrinsic."""
        types = ([self.result] if self.adds else []) + [self.operand, self.operand]
        return f"declare {self.result} @{self.intrinsic}({', '.join(types)})"

    def definition(self) -> str:
        """The function that code calls, by the intrinsic."""
        call = [f"{self.result} %c"] * self.adds + [f"{self.operand} %a", f"{self.operand} %b"]
        body = [f"%r = call {self.result} @{self.intrinsic}({', '.join(call)})", f"ret {self.result} %r"]
        return "\n".join([self._head(), *(f"  {line}" for line in body), "}"])

    def meaning(self) -> str:
        """The same function in plain operations."""
        wide = f"<{self.pieces * self.lanes} x i32>"
        lines = [f"%{x}w = {'zext' if t == 'u8' else 'sext'} {self.operand} %{x} to {wide}" for x, t in zip("ab", self.types)]
        lines.append(f"%p = mul {wide} %aw, %bw")
        total = "%c" if self.adds else "zeroinitializer"
        for n in range(self.pieces):
            picks = ", ".join(f"i32 {self.pieces * lane + n}" for lane in range(self.lanes))
            lines.append(f"%p{n} = shufflevector {wide} %p, {wide} poison, <{self.lanes} x i32> <{picks}>")
            lines.append(f"%s{n} = add {self.result} {total}, %p{n}")
            total = f"%s{n}"
        lines.append(f"ret {self.result} {total}")
        return "\n".join([self._head(), *(f"  {line}" for line in lines), "}"])

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
INSTRUCTIONS = (*_VPDPBUSD, *_SDOT, *_UDOT, *_USDOT, *_VPMADDWD)


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


def dot(target: CpuTarget, lanes: int, one: str, other: str) -> tuple[Instruction, bool] | None:
    """What multiplies bytes of those types, and whether it takes them the other way round; None where there is nothing."""
    for found in dots(target):
        if found.lanes == lanes and set(found.types) == {one, other}:
            return found, found.types != (one, other)
    return None


def groups_pay(target: CpuTarget, stage: Stage) -> bool:
    """Whether the machine has anything for the products of a stage in groups; else they are made one by one, in i32."""
    both = factors(stage)
    found = pairs(target) if both is None or both[0].dtype == Widen.TYPE else (*dots(target), *pairs(target))
    return both is not None and any(i.lanes == target.lanes(4) for i in found)


def widens(target: CpuTarget, stage: Stage) -> bool:
    """Whether the bytes that a stage multiplies are better stored as i16: where the machine has nothing but pairs for them, and
    each is used so often that the larger copy pays."""
    both = factors(stage)
    if both is None or both[0].dtype == Widen.TYPE or group_axis(stage) is None or dots(target) or not groups_pay(target, stage):
        return False
    used = [math.prod(a.extent for a in stage.axes if a.name not in variables(x)) for x in stage.reads]
    return min(used) >= _USES


def unpacks_pairs(target: CpuTarget, stage: Stage) -> bool:
    """Whether a stage in groups makes pairs of bytes in registers, in every step again."""
    both = factors(stage)
    return both is not None and both[0].dtype != Widen.TYPE and not dots(target)


def operand_registers(target: CpuTarget, stage: Stage) -> tuple[int, int]:
    """Registers that the factors of a sum in groups take while a step of it runs: for each vector, and besides."""
    both = factors(stage)
    assert both is not None
    lanes, one, other = target.lanes(4), both[0].dtype, both[1].dtype
    if one == Widen.TYPE:
        # a pair in all lanes, and a product before it is added; SSE multiplies in place of a factor
        return 1, 2 if target.has("avx") else 3
    besides = 1 if target.is_x86 else 4  # rows that LLVM loads early
    if dot(target, lanes, one, other) is not None:
        return 1, besides
    if dots(target):  # the bytes of rows are moved; every vector has a sum besides
        return 2, besides + 1
    return 2, 5  # even and odd bytes of both factors, a mask, and products before they are added


def pair_cycles(target: CpuTarget, stage: Stage, rows: int, vectors: int) -> float | None:
    """Cycles of one step of a tile in pairs of i16; None where the products are made in another way.

    Of bytes: for each result two products and two sums, for each row its bytes in every lane and their two halves, for each vector
    its bytes and three operations for its halves; four of all these in a cycle. Of what is stored as i16: a product and a sum for
    each result, four of these in a cycle, while the operands are loaded; the rest is for loads that come late, and for the loop.
    """
    both = factors(stage)
    assert both is not None
    if both[0].dtype == Widen.TYPE:
        return rows * vectors / 2 + 0.05 * (rows + vectors) + 0.3
    return (4 * rows * vectors + 3 * rows + 4 * vectors) / 4 if unpacks_pairs(target, stage) else None


def by_meaning(text: str) -> str:
    """The text of a module with the meaning of every instruction in place of the instruction; so with values that LLVM is kept from
    looking into, for which machines have other names of registers."""
    for instruction in INSTRUCTIONS:
        found = re.compile(rf'define internal [^@\n]*@"{re.escape(instruction.function)}"\(.*?\n\}}', re.DOTALL)
        text = found.sub(instruction.meaning(), text)  # which has no backslash
        text = text.replace(f"{instruction.declaration}\n", "")
    return re.sub(r'call (<[^>]*>) asm "", "=[a-z],0"\(<[^>]*> (%\w+)\)', r"freeze \1 \2", text)
