"""What generated code may call that it does not bring: a short list of libc's and libm's functions.

LLVM calls functions that no line of the IR names (`memset` for a loop that writes zeros, a compiler's run-time library for a
conversion that the machine lacks), and its linker finds them in whatever the process happens to have loaded. Code that works only
beside another library is worse than code that fails. So the names that an object leaves open are read from the object itself, and
one that is not on the list is an error.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Collection, Iterator

from tensorsmith.errors import InternalError

#: libc: copies that LLVM makes of loops, the clock, and how threads wait
_LIBC = ("memcpy", "memmove", "memset", "clock_gettime", "sched_getcpu", "sched_setaffinity", "sched_yield", "syscall", "usleep")
#: libm, in f64 and f32: the exact remainder, and what machines without the instruction for it need
_LIBM = tuple(name + suffix for name in ("fmod", "fma", "ceil", "floor", "roundeven", "trunc") for suffix in ("", "f"))

ALLOWED = frozenset({*_LIBC, *_LIBM})

#: The linker makes this one: where an object's table of addresses is.
LINKERS_OWN = "_GLOBAL_OFFSET_TABLE_"

ELF = b"\x7fELF\x02\x01"  # the beginning of a 64-bit little-endian object
SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, bytes of an entry
SYMBOL = struct.Struct("<IBBHQQ")  # name, kind, visibility, section, value, size
SYMBOL_TABLE = 2  # the type of a section


@functools.cache
def outside() -> dict[str, int]:
    """Addresses of the functions of the list, by name; without those that an older libm lacks."""
    libraries = ((_library("libc.so.6"), _LIBC), (_library("libm.so.6"), _LIBM))
    return {
        name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        for library, names in libraries
        for name in names
        if hasattr(library, name)
    }


def _library(name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name)
    except OSError:  # another libc than GNU's, which has both in one
        return ctypes.CDLL(None)


def check(names: Collection[str], known: Collection[str] = ALLOWED) -> None:
    """Raises `InternalError` if an object leaves names open that nobody brings."""
    missing = sorted(set(names) - set(known))
    if missing:
        raise InternalError(f"generated code calls functions that nobody brings: {', '.join(missing)}")


def undefined(object_code: bytes) -> frozenset[str]:
    """Names that an ELF object uses and does not define."""
    if object_code[:6] != ELF:
        raise InternalError("generated code is no 64-bit little-endian ELF object, the only kind that can be linked")
    try:
        return frozenset(_undefined(object_code)) - {LINKERS_OWN}
    except (struct.error, ValueError, IndexError) as problem:
        raise InternalError(f"generated code is no complete ELF object: {problem}") from None


def _undefined(code: bytes) -> Iterator[str]:
    (start,) = struct.unpack_from("<Q", code, 0x28)  # of the table of sections
    size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [SECTION.unpack_from(code, start + n * size) for n in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for at in range(offset + SYMBOL.size, offset + length, SYMBOL.size):  # the first is empty
            name, _, _, section, _, _ = SYMBOL.unpack_from(code, at)
            if section == 0:
                yield code[names + name : code.index(b"\0", names + name)].decode()
