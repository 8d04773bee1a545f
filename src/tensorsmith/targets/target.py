"""What we generate for: the facts about a machine that the space, the code generator and the features use.

All target facts live in `Target`; nothing else asks the machine. `native()` fills one in for the machine we run on.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Target:
    """A machine. Sizes in bytes; `vector_bytes` is the width of one vector register, `lanes(4)` its f32 lanes."""

    triple: str
    cpu: str
    features: str  # LLVM feature string, "+avx2,+fma,-avx512f,..."
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l1_ways: int
    l2_bytes: int
    l3_bytes: int
    line_bytes: int
    cores: int
    #: the same on all machines so far: cycles until a multiply-add's result can be used, and how many of them start in a cycle
    fma_latency: ClassVar[int] = 4
    fmas_per_cycle: ClassVar[int] = 2
    kind: ClassVar[str] = "cpu"  # which backend generates for it

    def lanes(self, element_bytes: int = 4) -> int:
        """How many elements of that size one vector register holds."""
        return max(1, self.vector_bytes // element_bytes)

    def has(self, feature: str) -> bool:
        """Whether an LLVM feature (such as "fma") is on."""
        return f"+{feature}" in self.features.split(",")

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686"))

    @property
    def is_aarch64(self) -> bool:
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def chains(self) -> int:
        """Multiply-adds that must be under way at once to keep the units busy."""
        return self.fma_latency * self.fmas_per_cycle

    @property
    def key(self) -> str:
        """Stable identity of the generated code's requirements; part of every record's key."""
        return f"{self.triple.split('-')[0]}/{self.cpu}/v{self.vector_bytes}x{self.vector_registers}/c{self.cores}"


def thread_count() -> int:
    """Threads a parallel region uses: `TENSORSMITH_NUM_THREADS`, else the cores this process may run on."""
    given = os.environ.get("TENSORSMITH_NUM_THREADS")
    if given is not None:
        if not given.strip().isdigit() or int(given) < 1:
            from tensorsmith.errors import UserError

            raise UserError(f"TENSORSMITH_NUM_THREADS is {given!r}; give a whole number of threads, at least 1")
        return int(given)
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


@functools.cache
def memory_bytes() -> int:
    """The memory of the machine; where it cannot be asked, more than any has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


@functools.cache
def native() -> Target:
    """The machine this process runs on, detected once."""
    import llvmlite.binding as llvm

    flags = dict(llvm.get_host_cpu_features())
    triple = llvm.get_process_triple()
    cpu = llvm.get_host_cpu_name()
    vector_bytes, registers = _vector_unit(triple, flags)
    caches = _caches()
    return Target(
        triple=triple,
        cpu=cpu,
        features=",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items())),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=caches.get(1, (32 << 10, 8))[0],
        l1_ways=caches.get(1, (32 << 10, 8))[1],
        l2_bytes=caches.get(2, (512 << 10, 8))[0],
        l3_bytes=caches.get(3, (8 << 20, 16))[0],
        line_bytes=64,
        cores=thread_count(),
    )


def given_or_native(target: Target | None) -> Target:
    """The target that a caller gave, or this machine."""
    if target is None:
        return native()
    if not isinstance(target, Target):
        from tensorsmith.errors import UserError

        raise UserError(f"target is {target!r}; give a tensorsmith.targets.target.Target, or nothing for this machine")
    return target


def _vector_unit(triple: str, flags: dict[str, bool]) -> tuple[int, int]:
    """(bytes of a vector register, number of vector registers) for the widest unit the machine has."""
    if triple.startswith(("x86_64", "i686")):
        if flags.get("avx512f") and flags.get("avx512vl"):
            return 64, 32
        if flags.get("avx"):
            return 32, 16
        return 16, 16
    return 16, 32  # AArch64 NEON, and a safe guess elsewhere


def _caches() -> dict[int, tuple[int, int]]:
    """Data cache sizes and associativity by level, from Linux's sysfs; empty where that is missing."""
    found: dict[int, tuple[int, int]] = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
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
