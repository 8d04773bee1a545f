"""Objects of x86-64 into the memory of this process, by a linker of our own: what runs a saved executable needs no LLVM.

Generated code is compiled for any distance between its parts (LLVM's large code model), so that few kinds of relocation occur, and
all but two have 64 bits. What an object leaves open is reached through a table of addresses (the GOT) behind its sections. Code and
constants may be read and run, and not written; sections that are written lie on pages of their own.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tensorsmith.backends.cpu.symbols import LINKERS_OWN, SECTION, SYMBOL, SYMBOL_TABLE
from tensorsmith.errors import InternalError
from tensorsmith.runtime.built import Code

X86_64 = 62  # EM_X86_64, the machine in an object's header
_ZEROS, _RELOCATIONS, _UNWINDING = 8, 4, 0x70000001  # types of sections: SHT_NOBITS, SHT_RELA, SHT_X86_64_UNWIND
_WRITTEN, _ALLOCATED = 1, 2  # flags of sections
_UNDEFINED, _ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00  # numbers of sections that symbols may have
_ENTRY = struct.Struct("<QQq")  # of a relocation: where, symbol << 32 | kind, addend
_ALIGNMENT = 64

#: kinds of relocations, by their numbers in the System V ABI's AMD64 supplement: 64 bits unless said otherwise
_64, _PC32, _PLT32, _PC64, _GOTOFF64, _GOT64, _GOTPC64 = 1, 2, 4, 24, 25, 27, 29


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    value: int


class Linked:
    """Object code in memory, freed with this object. The addresses it gives are valid only while it lives."""

    def __init__(self, code: Code, memory: mmap.mmap, addresses: Mapping[str, int]) -> None:
        self.code = code
        self._memory = memory
        self._addresses = addresses

    def address(self, name: str) -> int:
        """Address of an exported function."""
        if name not in self.code.symbols or name not in self._addresses:
            raise InternalError(f"no function {name!r} in the module; it has {', '.join(sorted(self.code.symbols))}")
        return self._addresses[name]


def is_x86_64(object_code: bytes) -> bool:
    """Whether an ELF object is for the machine that this linker knows."""
    return len(object_code) > 20 and struct.unpack_from("<H", object_code, 18)[0] == X86_64


def link(code: Code, known: Mapping[str, int]) -> Linked:
    """Code in memory. `known` has the addresses of all names that it does not define."""
    try:
        return _link(code, known)
    except (struct.error, ValueError, IndexError) as problem:
        raise InternalError(f"linking generated code failed: {problem}") from problem


def _link(code: Code, known: Mapping[str, int]) -> Linked:
    data = bytes(code.data)
    sections = _sections(data)
    kept = [n for n, s in enumerate(sections) if s.flags & _ALLOCATED and s.size and s.kind != _UNWINDING]
    symbols = _symbols(data, sections)
    starts, table, end = _places(sections, kept, len(symbols))
    memory = mmap.mmap(-1, end, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = _address(memory)
    for n in kept:
        if sections[n].kind != _ZEROS:
            memory[starts[n] : starts[n] + sections[n].size] = data[sections[n].offset :][: sections[n].size]
    addresses = [_place(symbol, starts, base, table, known) for symbol in symbols]
    for n, address in enumerate(addresses):
        struct.pack_into("<Q", memory, table + 8 * n, address)
    for s in sections:
        if s.kind == _RELOCATIONS and s.info in starts:
            for at in range(s.offset, s.offset + s.size, _ENTRY.size):
                where, what, addend = _ENTRY.unpack_from(data, at)
                _relocate(memory, base, starts[s.info] + where, what & 0xFFFFFFFF, what >> 32, addresses, addend, table)
    _protect(base, _up(table + 8 * len(symbols), mmap.PAGESIZE))
    return Linked(code, memory, {s.name: a for s, a in zip(symbols, addresses) if s.section in starts})


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return [_Section(*SECTION.unpack_from(data, start + n * size)) for n in range(count)]


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    """Of the one table of symbols, in its order, which relocations count by."""
    found = []
    for s in sections:
        if s.kind == SYMBOL_TABLE:
            names = sections[s.link].offset
            for at in range(s.offset, s.offset + s.size, SYMBOL.size):
                name, _, _, section, value, _ = SYMBOL.unpack_from(data, at)
                found.append(_Symbol(data[names + name : data.index(b"\0", names + name)].decode(), section, value))
    return found


def _places(sections: list[_Section], kept: list[int], symbols: int) -> tuple[dict[int, int], int, int]:
    """Where each section starts, where the table of addresses does, and how many bytes there are: first what is not written."""
    starts: dict[int, int] = {}
    at = 0
    for n in (n for n in kept if not sections[n].flags & _WRITTEN):
        at = starts[n] = _up(at, max(1, sections[n].alignment))
        at += sections[n].size
    table = _up(at, _ALIGNMENT)
    at = _up(table + 8 * symbols, mmap.PAGESIZE)
    for n in (n for n in kept if sections[n].flags & _WRITTEN):
        at = starts[n] = _up(at, max(1, sections[n].alignment))
        at += sections[n].size
    return starts, table, _up(max(at, 1), mmap.PAGESIZE)


def _place(symbol: _Symbol, starts: Mapping[int, int], base: int, table: int, known: Mapping[str, int]) -> int:
    if symbol.section == _UNDEFINED:
        return base + table if symbol.name == LINKERS_OWN else known.get(symbol.name, 0)
    if symbol.section == _ABSOLUTE:
        return symbol.value
    if symbol.section >= _RESERVED:
        raise InternalError(f"linking generated code failed: {symbol.name} is in section {symbol.section:#x}")
    return base + starts[symbol.section] + symbol.value if symbol.section in starts else 0


def _relocate(memory: mmap.mmap, base: int, at: int, kind: int, symbol: int, addresses: list[int], addend: int, table: int) -> None:
    """Writes what is to be at an offset in memory, by the rules of the ABI."""
    target, here, got = addresses[symbol], base + at, base + table
    if kind in (_PC32, _PLT32):
        struct.pack_into("<i", memory, at, target + addend - here)
        return
    values = {
        _64: target + addend,
        _PC64: target + addend - here,
        _GOTOFF64: target + addend - got,
        _GOT64: 8 * symbol + addend,
        _GOTPC64: got + addend - here,
    }
    if kind not in values:
        raise InternalError(f"linking generated code failed: a relocation of kind {kind}")
    struct.pack_into("<Q", memory, at, values[kind] & 0xFFFFFFFFFFFFFFFF)


def _protect(start: int, size: int) -> None:
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise InternalError("the system does not allow memory with generated code to be run")


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
