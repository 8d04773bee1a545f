"""The CPU that this process runs on: LLVM knows its name and features, Linux its caches."""

from __future__ import annotations

import re
from pathlib import Path

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.targets.host import thread_count

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def detect() -> CpuTarget:
    """This machine, with as many cores as this process may use."""
    import llvmlite.binding as llvm

    flags = dict(llvm.get_host_cpu_features())
    triple = llvm.get_process_triple()
    vector_bytes, registers = _vector_unit(triple, flags)
    found = caches()
    (l1_bytes, l1_ways), (l2_bytes, _), (l3_bytes, _) = (found.get(n, usual) for n, usual in _USUAL.items())
    return CpuTarget(
        triple=triple,
        cpu=llvm.get_host_cpu_name(),
        features=",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items())),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=l1_bytes,
        l1_ways=l1_ways,
        l2_bytes=l2_bytes,
        l3_bytes=l3_bytes,
        line_bytes=64,
        cores=thread_count(),
    )


#: bytes and ways of the caches, by level, where the system does not say
_USUAL = {1: (32 << 10, 8), 2: (512 << 10, 8), 3: (8 << 20, 16)}


def _vector_unit(triple: str, flags: dict[str, bool]) -> tuple[int, int]:
    """(bytes of a vector register, number of vector registers) for the widest unit the machine has."""
    if triple.startswith(("x86_64", "i686")):
        if flags.get("avx512f") and flags.get("avx512vl"):
            return 64, 32
        if flags.get("avx"):
            return 32, 16
        return 16, 16
    return 16, 32  # AArch64 NEON, and a safe guess elsewhere


def caches(folder: Path = _CACHES) -> dict[int, tuple[int, int]]:
    """Data cache sizes and associativity by level, from Linux's sysfs; empty where that is missing."""
    found: dict[int, tuple[int, int]] = {}
    for index in folder.glob("index*"):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            size = _size((index / "size").read_text().strip())
            ways = int((index / "ways_of_associativity").read_text())
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size:
            found[level] = (size, ways or 8)
    return found


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        return 0
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
