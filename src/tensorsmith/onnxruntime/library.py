"""The shared library that ONNX Runtime opens, written byte by byte: no compiler and no linker.

ONNX Runtime asks a library for two functions by name. Each is one jump through a table of addresses, which the library exports too.
This process opens the library first and writes the addresses of its own functions into the table, so both names lead into Python.

The file has what a dynamic loader reads, and no more: a header, program headers (code, data, where the dynamic section is, a stack
that is not executable), a hash table, symbols, their names. There are no relocations and no sections.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from tensorsmith.errors import UserError

#: What ONNX Runtime looks up, in the order of the table.
FUNCTIONS = ("CreateEpFactories", "ReleaseEpFactory")
TABLE = "tensorsmith_table"

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # of an ELF file
_SEGMENT = struct.Struct("<IIQQQQQQ")  # type, flags, offset, address, physical address, size in the file, in memory, alignment
_SYMBOL = struct.Struct("<IBBHQQ")  # name, kind, visibility, section, value, size
_ENTRY = struct.Struct("<QQ")  # of the dynamic section
_SHARED, _CURRENT = 3, 1  # the type of the file, and the version of the format
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551  # types of segments
_EXECUTE, _WRITE, _READ = 1, 2, 4
_HASH, _STRINGS, _SYMBOLS, _STRINGS_SIZE, _SYMBOL_SIZE = 4, 5, 6, 10, 11  # entries of the dynamic section
_OBJECT, _FUNCTION = 0x11, 0x12  # kinds of global symbols
_JUMP = 16  # bytes of room for each


def _x86_jump(at: int, slot: int) -> bytes:
    """jmp [rip + distance]"""
    return b"\xff\x25" + struct.pack("<i", slot - (at + 6)) + b"\xcc" * 10


def _arm_jump(at: int, slot: int) -> bytes:
    """adrp x16, page of the slot; ldr x16, [x16, offset in it]; br x16; brk"""
    pages = (slot >> 12) - (at >> 12)
    adrp = 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    ldr = 0xF9400210 | (slot & 0xFFF) >> 3 << 10
    return struct.pack("<4I", adrp, ldr, 0xD61F0200, 0xD4200000)


@dataclass(frozen=True)
class Machine:
    """What differs from processor to processor: its number in ELF, its largest pages, and the jump at an address through a slot."""

    number: int
    page: int
    jump: Callable[[int, int], bytes]


MACHINES = {"x86_64": Machine(62, 0x1000, _x86_jump), "aarch64": Machine(183, 0x10000, _arm_jump)}


def library(machine: Machine) -> bytes:
    """The file for a machine. Its data follows its code in the file, and lies one page further on in memory."""
    names = (*FUNCTIONS, TABLE)
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    count = 1 + len(names)  # the first symbol is empty
    hash_at = _HEADER.size + 4 * _SEGMENT.size
    # one bucket: every lookup walks the whole chain, of three
    hashes = struct.pack(f"<3I{count}I", 1, count, 1, 0, *range(2, count), 0)
    symbols_at = _round_up(hash_at + len(hashes), 8)
    strings_at = symbols_at + count * _SYMBOL.size
    code_at = _round_up(strings_at + len(strings), _JUMP)
    code_end = code_at + _JUMP * len(FUNCTIONS)
    data_at = machine.page + code_end  # in memory: the same place in the next page
    entries = [(_HASH, hash_at), (_STRINGS, strings_at), (_SYMBOLS, symbols_at)]
    entries += [(_STRINGS_SIZE, len(strings)), (_SYMBOL_SIZE, _SYMBOL.size), (0, 0)]
    dynamic = b"".join(_ENTRY.pack(*entry) for entry in entries)
    table_at = data_at + len(dynamic)
    data = dynamic + bytes(8 * len(FUNCTIONS))

    symbols = bytes(_SYMBOL.size)
    for n, name in enumerate(FUNCTIONS):
        symbols += _SYMBOL.pack(strings.index(name.encode()), _FUNCTION, 0, 1, code_at + _JUMP * n, _JUMP)
    symbols += _SYMBOL.pack(strings.index(TABLE.encode()), _OBJECT, 0, 1, table_at, 8 * len(FUNCTIONS))
    code = b"".join(machine.jump(code_at + _JUMP * n, table_at + 8 * n) for n in range(len(FUNCTIONS)))

    def segment(kind: int, flags: int, offset: int, at: int, size: int, alignment: int) -> bytes:
        return _SEGMENT.pack(kind, flags, offset, at, at, size, size, alignment)

    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = _HEADER.pack(
        identity, _SHARED, machine.number, _CURRENT, 0, _HEADER.size, 0, 0, _HEADER.size, _SEGMENT.size, 4, 0, 0, 0
    )
    segments = segment(_LOAD, _READ | _EXECUTE, 0, 0, code_end, machine.page)
    segments += segment(_LOAD, _READ | _WRITE, code_end, data_at, len(data), machine.page)
    segments += segment(_DYNAMIC, _READ | _WRITE, code_end, data_at, len(dynamic), 8)
    segments += segment(_STACK, _READ | _WRITE, 0, 0, 0, 16)
    made = bytearray(code_end)
    for at, part in ((0, header + segments), (hash_at, hashes), (symbols_at, symbols), (strings_at, strings), (code_at, code)):
        made[at : at + len(part)] = part
    return bytes(made) + data


def _round_up(size: int, to: int) -> int:
    return -(-size // to) * to


def opened(addresses: tuple[int, int]) -> tuple[str, object]:
    """A library whose functions lead to these addresses, opened: a path that ONNX Runtime can open while what is given besides is
    alive. The library is in memory alone where Linux offers that, so no folder has to allow code; else in a temporary file."""
    machine = MACHINES.get(platform.machine()) if platform.system() == "Linux" else None
    if machine is None:
        known = " and ".join(MACHINES)
        raise UserError(
            f"the execution provider is for Linux on {known}; this is {platform.system()} on {platform.machine()}: call "
            "ts.compile(ts.load(path)) instead"
        )
    content = library(machine)
    try:
        path, file = _in_memory(content)
        handle = ctypes.CDLL(path)
    except (AttributeError, OSError):  # an old kernel, or one that is told to keep code out of such files
        path, file = _in_a_file(content)
        handle = ctypes.CDLL(path)
    table = (ctypes.c_void_p * len(FUNCTIONS)).in_dll(handle, TABLE)
    for n, address in enumerate(addresses):
        table[n] = address
    return path, (handle, file)


def _in_memory(content: bytes) -> tuple[str, object]:
    file = os.fdopen(os.memfd_create("tensorsmith"), "wb")
    file.write(content)
    file.flush()
    return f"/proc/self/fd/{file.fileno()}", file


def _in_a_file(content: bytes) -> tuple[str, object]:
    file = tempfile.NamedTemporaryFile(prefix="tensorsmith-", suffix=".so")  # noqa: SIM115  # deleted with the process
    file.write(content)
    file.flush()
    return file.name, file
