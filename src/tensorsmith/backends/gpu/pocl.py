"""PoCL 3.0, the newest on PyPI, on CPUs that are younger than its LLVM 14.

LLVM calls such a CPU "generic", PoCL hands that name to clang, and clang refuses it: no kernel compiles on a Zen 5. The name is a
field of PoCL's record of the device, so it is replaced there by that of an older CPU with the same vectors.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import llvmlite.binding as llvm

_VERSION = "PoCL 3.0"
_FIELD = 640  # bytes from the beginning of the record to the pointer to the name, in x86-64 builds of that version
_UNKNOWN = b"generic\0"
_LIKE = (  # what the CPU must have, and an older one that has it: PoCL's own library of functions is chosen by the same features
    (("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), b"skylake-avx512"),
    (("avx2", "fma", "bmi2"), b"haswell"),
    ((), b"x86-64"),
)
_names: list[Any] = []  # PoCL keeps pointers into these


def name_cpu(device: Any) -> bool:
    """Gives the CPU a name that PoCL's compiler knows, where it has none; whether it did."""
    if _VERSION not in device.platform.version:
        return False
    field = device.int_ptr + _FIELD
    name = _bytes_at(int.from_bytes(_bytes_at(field, 8), "little"), len(_UNKNOWN))
    if name != _UNKNOWN:
        return False
    here = llvm.get_host_cpu_features()
    like = next(cpu for features, cpu in _LIKE if all(here.get(feature) for feature in features))
    _names.append(ctypes.create_string_buffer(like))
    ctypes.c_uint64.from_address(field).value = ctypes.addressof(_names[-1])
    return True


def _bytes_at(address: int, count: int) -> bytes:
    """What is in memory, or nothing: an address that is none is an error of the system's call here, not a crash."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), count, address)
    except (OSError, OverflowError, ValueError):
        return b""
