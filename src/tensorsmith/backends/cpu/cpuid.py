"""What an x86-64 processor says of itself: the features that LLVM would find, without LLVM.

The instruction `cpuid` gives four words for a leaf and a subleaf; `xgetbv` says which registers the system saves when it changes
threads. The bits are those of Intel's and AMD's manuals, the names LLVM's.
"""

from __future__ import annotations

import ctypes
import mmap

_CPUID = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")  # (leaf, subleaf, four words)
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")  # gives a word of 64 bits

_EAX, _EBX, _ECX, _EDX = range(4)
_EXTENDED = 0x80000000
#: features by leaf, subleaf, register and bit
_BITS: dict[tuple[int, int, int], dict[int, str]] = {
    (1, 0, _EDX): {8: "cx8", 15: "cmov", 23: "mmx", 24: "fxsr", 25: "sse", 26: "sse2"},
    (1, 0, _ECX): {
        0: "sse3", 1: "pclmul", 9: "ssse3", 12: "fma", 13: "cx16", 19: "sse4.1", 20: "sse4.2", 22: "movbe", 23: "popcnt", 25: "aes",
        26: "xsave", 28: "avx", 29: "f16c", 30: "rdrnd",
    },
    (7, 0, _EBX): {
        0: "fsgsbase", 2: "sgx", 3: "bmi", 5: "avx2", 8: "bmi2", 10: "invpcid", 11: "rtm", 16: "avx512f", 17: "avx512dq",
        18: "rdseed", 19: "adx", 21: "avx512ifma", 23: "clflushopt", 24: "clwb", 28: "avx512cd", 29: "sha", 30: "avx512bw",
        31: "avx512vl",
    },
    (7, 0, _ECX): {
        1: "avx512vbmi", 4: "pku", 5: "waitpkg", 6: "avx512vbmi2", 7: "shstk", 8: "gfni", 9: "vaes", 10: "vpclmulqdq",
        11: "avx512vnni", 12: "avx512bitalg", 14: "avx512vpopcntdq", 22: "rdpid", 23: "kl", 25: "cldemote", 27: "movdiri",
        28: "movdir64b", 29: "enqcmd",
    },
    (7, 0, _EDX): {
        5: "uintr", 8: "avx512vp2intersect", 14: "serialize", 16: "tsxldtrk", 18: "pconfig", 22: "amx-bf16", 23: "avx512fp16",
        24: "amx-tile", 25: "amx-int8",
    },
    (7, 1, _EAX): {
        0: "sha512", 1: "sm3", 2: "sm4", 3: "raoint", 4: "avxvnni", 5: "avx512bf16", 7: "cmpccxadd", 21: "amx-fp16", 22: "hreset",
        23: "avxifma",
    },
    (7, 1, _EDX): {4: "avxvnniint8", 5: "avxneconvert", 8: "amx-complex", 10: "avxvnniint16", 14: "prefetchi", 15: "usermsr"},
    (0xD, 1, _EAX): {0: "xsaveopt", 1: "xsavec", 3: "xsaves"},
    (0x80000001, 0, _ECX): {0: "sahf", 5: "lzcnt", 6: "sse4a", 8: "prfchw", 11: "xop", 15: "lwp", 16: "fma4", 21: "tbm"},
    (0x80000001, 0, _EDX): {29: "64bit"},
    (0x80000008, 0, _EBX): {0: "clzero", 4: "rdpru", 9: "wbnoinvd"},
}  # fmt: skip
_OSXSAVE = 27  # bit of leaf 1, ECX: the system saves more than the oldest registers
_AVX_STATE, _AVX512_STATE, _AMX_STATE = 0x6, 0xE6, 0x60000  # bits of what is saved
_OF_AVX = ("f16c", "fma", "fma4", "xop", "vaes", "vpclmulqdq", "xsave", "xsaveopt", "xsavec", "xsaves")


def features() -> dict[str, bool]:
    """Whether this processor has each feature, and the system lets programs use it."""
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    page.write(_CPUID.ljust(64, b"\xcc") + _XGETBV)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(len(page)), mmap.PROT_READ | mmap.PROT_EXEC):
        return {}
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(start)
    saved = ctypes.CFUNCTYPE(ctypes.c_uint64)(start + 64)

    def words(leaf: int, subleaf: int) -> tuple[int, ...]:
        answer = (ctypes.c_uint32 * 4)()
        ask(leaf, subleaf, ctypes.addressof(answer))
        return tuple(answer)

    most = {0: words(0, 0)[_EAX], _EXTENDED: words(_EXTENDED, 0)[_EAX]}
    found: dict[str, bool] = {}
    for (leaf, subleaf, register), names in _BITS.items():
        there = leaf <= most[leaf & _EXTENDED] and (leaf != 7 or subleaf <= words(7, 0)[_EAX])
        word = words(leaf, subleaf)[register] if there else 0
        found |= {name: bool(word >> bit & 1) for bit, name in names.items()}
    found["crc32"] = found["sse4.2"]
    state = int(saved()) if words(1, 0)[_ECX] >> _OSXSAVE & 1 else 0
    return {name: on and _usable(name, state) for name, on in found.items()}


def _usable(name: str, state: int) -> bool:
    """Whether the system saves the registers that a feature is about."""
    if name.startswith("avx512"):
        return state & _AVX512_STATE == _AVX512_STATE
    if name.startswith("amx"):
        return state & _AMX_STATE == _AMX_STATE
    return not (name.startswith("avx") or name in _OF_AVX) or state & _AVX_STATE == _AVX_STATE


def level(found: dict[str, bool]) -> str:
    """The name of the level that a processor of these features is at least of."""
    for name, needed in (("x86-64-v4", "avx512vl"), ("x86-64-v3", "avx2"), ("x86-64-v2", "sse4.2")):
        if found.get(needed):
            return name
    return "x86-64"
