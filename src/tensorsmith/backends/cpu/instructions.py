"""Instructions that multiply several small numbers in every lane of 32 bits: which there are, and which machine has which.

    vpdpbusd  c, a, b      c[n] + a[4n] * b[4n] + ... + a[4n + 3] * b[4n + 3]      bytes, of a u8, of b i8
    vpmaddwd  a, b         a[2n] * b[2n] + a[2n + 1] * b[2n + 1]                   of i16; neither can overflow
    vpmaddubsw             as the first, for b of seven bits (`lang/small.py`), whose products fit in pairs in 16: these are added
                           up by vpmaddwd, times one, and to c
    vdpbf16ps c, a, b      the same of two bf16 in f32 (`bf16_dots.py`)

Code calls each by a function of its own, whose body is LLVM's intrinsic. `by_meaning` puts the same in plain operations into their
place: a kernel for a machine that this one is not then runs here, and does what it would do there.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tensorsmith.backends.cpu.bf16_dots import Bf16Dot
from tensorsmith.backends.cpu.instruction import Instruction
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.expr import Expr
from tensorsmith.lang.small import most, small_load

SMALL = "i7"  # what bytes are called here of which a definition says that they are small
POSITIVE = "u7"  # bytes without a sign that are made of fewer bits, so that they are the same with one
_ALSO = {SMALL: ("i8",), POSITIVE: ("u8", "i8")}
OTHER = {"i8": "u8", "u8": "i8"}  # what a byte becomes that is moved by 128


_BF16 = ("bf16", "bf16")


def _dots(name: str, types: tuple[str, str], intrinsics: dict[int, str]) -> tuple[Instruction, ...]:
    return tuple(Instruction(name, lanes, types, True, intrinsic) for lanes, intrinsic in intrinsics.items())


_VPDPBUSD = _dots("vpdpbusd", ("u8", "i8"), {n: f"llvm.x86.avx512.vpdpbusd.{32 * n}" for n in (4, 8, 16)})
_SCALABLE = (8, 16)  # lanes of vectors that are scalable ones on AArch64: wider than NEON's
_SDOT, _UDOT, _USDOT = (
    _dots(name, types, {n: f"llvm.aarch64.neon.{name}.v{n}i32.v{4 * n}i8" for n in (2, 4)})
    + tuple(Instruction(name, n, types, True, f"llvm.aarch64.sve.{name}.nxv4i32", scalable=True) for n in _SCALABLE)
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
_OF_POSITIVE = tuple(replace(i, types=(POSITIVE, "i8")) for i in _VPMADDUBSW)  # 127 * -128 twice fits in 16 bits
_VDPBF16PS = tuple(Bf16Dot("vdpbf16ps", n, _BF16, True, f"llvm.x86.avx512bf16.dpbf16ps.{32 * n}") for n in (4, 8, 16))
_BFDOT = tuple(
    Bf16Dot("bfdot", n, _BF16, True, f"llvm.aarch64.neon.bfdot.v{n}f32.v{2 * n}bf16", to_odd=True) for n in (2, 4)
) + tuple(Bf16Dot("bfdot", n, _BF16, True, "llvm.aarch64.sve.bfdot", scalable=True, to_odd=True) for n in _SCALABLE)
_MATRICES = tuple(
    Instruction(name, n, types, True, f"llvm.aarch64.{'neon' if n == 4 else 'sve'}.{name}.{'v4i32.v16i8' if n == 4 else 'nxv4i32'}",
                scalable=n > 4, matrix=True)
    for name, types in (("smmla", ("i8", "i8")), ("ummla", ("u8", "u8")), ("usmmla", ("u8", "i8")))
    for n in (4, *_SCALABLE)
)  # fmt: skip
_BFMMLA = tuple(
    Bf16Dot(
        "bfmmla", n, _BF16, True, f"llvm.aarch64.{'neon' if n == 4 else 'sve'}.bfmmla", scalable=n > 4, matrix=True, to_odd=True
    )
    for n in (4, *_SCALABLE)
)
INSTRUCTIONS = (*_VPDPBUSD, *_SDOT, *_UDOT, *_USDOT, *_VPMADDWD, *_VPMADDUBSW, *_VDPBF16PS, *_BFDOT, *_MATRICES, *_BFMMLA)


def dots(target: CpuTarget) -> tuple[Instruction, ...]:
    """The instructions of a machine that multiply bytes by bytes."""
    if target.is_x86:
        if target.has("avx512vnni") and target.has("avx512vl"):
            return _VPDPBUSD
        return tuple(i for i in _VPDPBUSD if i.lanes < 16) if target.has("avxvnni") else ()
    if not target.is_aarch64:
        return ()
    found = (i for i in (*_SDOT, *_UDOT) if i.scalable or target.has("dotprod"))  # SVE has had them from its beginning
    return _of_its_width((*found, *(_USDOT if target.has("i8mm") else ())), target)


def bf16_dots(target: CpuTarget) -> tuple[Instruction, ...]:
    """Those that multiply bf16 by bf16."""
    if target.is_x86:
        return _VDPBF16PS if target.has("avx512bf16") and target.has("avx512vl") else ()
    return _of_its_width(_BFDOT, target) if target.is_aarch64 and target.has("bf16") else ()


def matrices(target: CpuTarget) -> tuple[Instruction, ...]:
    """Those that multiply two rows by two columns."""
    if not target.is_aarch64:
        return ()
    return _of_its_width((*(_MATRICES if target.has("i8mm") else ()), *(_BFMMLA if target.has("bf16") else ())), target)


def matrix(target: CpuTarget, lanes: int, rows: str, columns: str) -> Instruction | None:
    """What multiplies rows and columns of those kinds, in vectors of so many lanes."""
    return next((i for i in matrices(target) if i.lanes == lanes and _takes(i, (rows, columns))), None)


def _takes(instruction: Instruction, kinds: tuple[str, str]) -> bool:
    """Whether factors of those kinds, in this order, are such as it multiplies; a small byte is one with a sign, and one of seven
    bits is of either type."""
    return all(a == b or b in _ALSO.get(a, ()) for a, b in zip(kinds, instruction.types))


def _of_its_width(found: tuple[Instruction, ...], target: CpuTarget) -> tuple[Instruction, ...]:
    """Without those on scalable vectors of another length than the machine's: its code has one length."""
    return tuple(i for i in found if not i.scalable or 4 * i.lanes == target.scalable_bytes)


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
    return tuple(i for i in (*_VPMADDUBSW, *_OF_POSITIVE) if i.pairs in pairs(target))


def kind(e: Expr) -> str:
    """The type of a factor, `SMALL`, or `POSITIVE`."""
    if e.dtype == "u8" and most(e) < 1 << 7:
        return POSITIVE
    return e.dtype if small_load(e) is None else SMALL


def dot(target: CpuTarget, lanes: int, one: str, other: str) -> tuple[Instruction, bool] | None:
    """What multiplies factors of those kinds, and whether it takes them the other way round; None where there is nothing."""
    for found in (*dots(target), *small_dots(target), *bf16_dots(target)):
        for types in ((one, other), (other, one)):
            if found.lanes == lanes and _takes(found, types):
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
