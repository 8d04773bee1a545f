"""Object files for other linkers than our own.

Code that this process loads has been compiled for any distance between its parts, and every kernel calls its entry the same. In a
library each needs a name of its own, and code that a linker can put into a shared library: it is emitted once more from its LLVM
text. Weights need no compiler where objects are ELF: one of one section is written as it is. So is an archive, with its names.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith.backends.cpu.llvm import emit_object
from tensorsmith.backends.cpu.symbols import ALLOWED, ELF, SECTION, SYMBOL, SYMBOL_TABLE, check, undefined
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.runtime.buffers import ALIGNMENT, round_up
from tensorsmith.runtime.built import Kernel

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # of an ELF file
_PROGRAM, _STRINGS = 1, 3  # types of sections, besides the table of symbols
_ALLOCATED = 2  # flag of a section: it is there when the program runs
_GLOBAL_OBJECT = 0x11
_RELOCATABLE = 1

_ARCHIVE = b"!<arch>\n"


@dataclass(frozen=True)
class Object:
    """An object file, and the one name that it exports."""

    name: str
    symbol: str
    data: bytes


def kernel_object(kernel: Kernel, symbol: str) -> Object:
    """A kernel whose entry has another name."""
    target = kernel.code.target
    assert isinstance(target, CpuTarget)
    text = re.sub(rf"@{re.escape(kernel.symbol)}(?![\w.$-])", f"@{symbol}", kernel.code.source("llvm"))
    data = emit_object(text, target)
    if data[:6] == ELF:
        check(undefined(data), ALLOWED)
    return Object(f"{symbol}.o", symbol, data)


def is_elf(target: CpuTarget) -> bool:
    """Whether its system has ELF objects: Linux and what is like it."""
    return "linux" in target.triple or "elf" in target.triple


def joined(parts: Sequence[bytes | memoryview]) -> bytes:
    """The parts one after the other, each filled up so that the next is 64-byte aligned."""
    return b"".join(piece for part in parts for piece in (part, bytes(-len(part) % ALIGNMENT)))


def weights_object(parts: Sequence[bytes | memoryview], symbol: str, target: CpuTarget) -> Object:
    """The parts one after the other, each 64-byte aligned, as a constant of that name."""
    if not is_elf(target):
        return Object(f"{symbol}.o", symbol, emit_object(_constant(joined(parts), symbol), target))
    sample = emit_object("define internal void @nothing() { ret void }", target)  # knows the machine's number and flags
    _, _, machine, _, _, _, _, flags, *_ = _HEADER.unpack_from(sample)
    block = joined(parts)
    names = b"\0.rodata\0.symtab\0.strtab\0.note.GNU-stack\0"
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = bytes(SYMBOL.size) + SYMBOL.pack(1, _GLOBAL_OBJECT, 0, 1, 0, len(block))
    contents = (block, symbols, strings, names)
    starts = []
    at = ALIGNMENT  # behind the header, which has 64 bytes
    for content in contents:
        starts.append(at)
        at += round_up(len(content))

    def section(name: bytes, kind: int, flags: int, of: int, link: int, info: int, alignment: int, entry: int) -> bytes:
        return SECTION.pack(names.index(name), kind, flags, 0, starts[of], len(contents[of]), link, info, alignment, entry)

    sections = [
        bytes(SECTION.size),
        section(b".rodata", _PROGRAM, _ALLOCATED, 0, 0, 0, ALIGNMENT, 0),
        section(b".symtab", SYMBOL_TABLE, 0, 1, 3, 1, 8, SYMBOL.size),
        section(b".strtab\0", _STRINGS, 0, 2, 0, 0, 1, 0),
        section(b".strtab\0", _STRINGS, 0, 3, 0, 0, 1, 0),
        SECTION.pack(names.index(b".note.GNU-stack"), _PROGRAM, 0, 0, at, 0, 0, 0, 1, 0),  # code here needs no executable stack
    ]
    identity = sample[:16]
    header = _HEADER.pack(identity, _RELOCATABLE, machine, 1, 0, 0, at, flags, _HEADER.size, 0, 0, SECTION.size, len(sections), 4)
    return Object(f"{symbol}.o", symbol, header + joined(contents) + b"".join(sections))


def _constant(data: bytes, symbol: str) -> str:
    """LLVM's text of it: a slower way, and larger on the way, for objects that we do not write ourselves."""
    text = "".join(f"\\{byte:02x}" for byte in data)
    return f'@{symbol} = constant [{len(data)} x i8] c"{text}", align {ALIGNMENT}\n'


def archive(objects: Sequence[Object]) -> bytes:
    """A static library in the format of GNU's `ar`, with the table of names that linkers look for."""
    long_names = b"".join(o.name.encode() + b"/\n" for o in objects)
    names = b"".join(o.symbol.encode() + b"\0" for o in objects)
    table_size = 4 * (1 + len(objects)) + len(names)
    at = len(_ARCHIVE) + _member_size(table_size) + _member_size(len(long_names))
    offsets = []
    for o in objects:
        offsets.append(at)
        at += _member_size(len(o.data))
    table = struct.pack(f">{1 + len(objects)}I", len(objects), *offsets) + names
    parts = [_ARCHIVE, _member("/", table), _member("//", long_names)]
    name_at = 0
    for o in objects:
        parts.append(_member(f"/{name_at}", o.data))
        name_at += len(o.name) + 2
    return b"".join(parts)


def _member_size(bytes_: int) -> int:
    return 60 + bytes_ + bytes_ % 2


def _member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(data):<10}`\n"
    return header.encode() + data + b"\n" * (len(data) % 2)
