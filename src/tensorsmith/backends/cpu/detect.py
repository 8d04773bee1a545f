"""The CPU that this process runs on: LLVM knows its name and features, on AArch64 Linux does better; Linux knows its caches."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorsmith.backends.cpu import cpuid
from tensorsmith.backends.cpu.arm import Core, this_core
from tensorsmith.backends.cpu.named import NAMED
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.targets.host import thread_count

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_LEAST_SHARED = 2  # cores that have a cache together, from which on it is not a core's own


@dataclass(frozen=True)
class Cache:
    """Bytes, lines at addresses that differ by a multiple of its size over its ways, bytes of a line, and CPUs that share it."""

    size: int
    ways: int
    line: int = 64
    shared_by: int = 1


#: by level, where the system does not say
_USUAL = {1: Cache(32 << 10, 8), 2: Cache(512 << 10, 8), 3: Cache(8 << 20, 16)}


def detect() -> CpuTarget:
    """This machine, with as many cores as this process may use."""
    triple, cpu, flags = _by_llvm() if importlib.util.find_spec("llvmlite") else _by_itself()
    if sys.platform == "linux" and platform.machine() == "aarch64":
        return arm_target(triple, this_core(os.sched_getaffinity(0)), caches(), thread_count(), os.sysconf("SC_PAGE_SIZE"))
    vector_bytes, registers = _vector_unit(triple, flags)
    first, second, last = ({**_USUAL, **caches()}[level] for level in _USUAL)
    return CpuTarget(
        triple=triple,
        cpu=cpu,
        features=",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items())),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=first.size,
        l1_ways=first.ways,
        l2_bytes=second.size,
        l3_bytes=last.size,
        line_bytes=64,
        cores=thread_count(),
        **rates(cpu, vector_bytes),
    )


def _by_llvm() -> tuple[str, str, dict[str, bool]]:
    """LLVM's name of machine and system, its name of the processor, and the processor's features."""
    import llvmlite.binding as llvm

    return llvm.get_process_triple(), llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())


def _by_itself() -> tuple[str, str, dict[str, bool]]:
    """The same where LLVM is not installed, as far as it takes to know which code can run here. The name is that of a level."""
    triple = f"{platform.machine()}-unknown-linux-gnu"
    if not triple.startswith("x86_64"):
        return triple, "generic", {}
    flags = cpuid.features()
    return triple, cpuid.level(flags), flags


def arm_target(triple: str, core: Core, found: Mapping[int, Cache], threads: int, page_bytes: int) -> CpuTarget:
    """An AArch64 machine of what was found there. What the system does not tell (rates) is taken from the core of that name.

    Its vectors are scalable ones where those are wider. Where cores share the second cache and there is no third, it counts as the
    last one, and a core's part of it as the second.
    """
    known, vector_bytes = NAMED.get(core.name), max(16, core.scalable_bytes)
    facts: dict[str, Any] = {}
    if known is not None:
        facts = {name: getattr(known, name) for name in ("l1_bytes", "l1_ways", "l2_bytes", "l3_bytes", "in_order")}
    facts |= rates(core.name, vector_bytes)
    if 1 in found:
        facts |= {"l1_bytes": found[1].size, "l1_ways": found[1].ways, "line_bytes": found[1].line}
    if 2 in found:
        facts["l2_bytes"] = found[2].size
        if 3 not in found and found[2].shared_by >= _LEAST_SHARED:
            facts |= {"l2_bytes": found[2].size // found[2].shared_by, "l3_bytes": found[2].size}
    if 3 in found:
        facts["l3_bytes"] = found[3].size
    return CpuTarget(triple, core.name, core.features, vector_bytes, 32, cores=threads, page_bytes=page_bytes, **facts)


def rates(cpu: str, vector_bytes: int) -> dict[str, Any]:
    """What no system tells, of the processor of that name, for vectors of that size; nothing if it is not known."""
    known = NAMED.get(cpu)
    if known is None:
        return {}
    return {
        "fma_latency": known.fma_latency,
        "fmas_per_cycle": max(1, known.fmas_per_cycle * known.vector_bytes // vector_bytes),
    }


def _vector_unit(triple: str, flags: dict[str, bool]) -> tuple[int, int]:
    """(bytes of a vector register, number of vector registers) for the widest unit the machine has."""
    if triple.startswith(("x86_64", "i686")):
        if flags.get("avx512f") and flags.get("avx512vl"):
            return 64, 32
        if flags.get("avx"):
            return 32, 16
        return 16, 16
    return 16, 32  # AArch64 NEON, and a safe guess elsewhere


def caches(folder: Path = _CACHES) -> dict[int, Cache]:
    """Data caches by level, from Linux's sysfs; empty where that is missing."""
    found: dict[int, Cache] = {}
    for index in folder.glob("index*"):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            size = _size((index / "size").read_text().strip())
            ways = int((index / "ways_of_associativity").read_text())
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size:
            found[level] = Cache(size, ways or 8, _line(index), _shared_by(index))
    return found


def _line(index: Path) -> int:
    try:
        return int((index / "coherency_line_size").read_text())
    except (OSError, ValueError):
        return 64


def _shared_by(index: Path) -> int:
    """CPUs of a list such as "0-3,8"."""
    try:
        ranges = [part.split("-") for part in (index / "shared_cpu_list").read_text().strip().split(",")]
        return sum(int(ends[-1]) - int(ends[0]) + 1 for ends in ranges)
    except (OSError, ValueError):
        return 1


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        return 0
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
