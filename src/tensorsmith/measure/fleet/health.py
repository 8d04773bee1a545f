"""How the machine is that a node runs on, where the system says: its load, its temperature, and whether it is a machine at all."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from pathlib import Path

_PROC, _THERMAL = Path("/proc"), Path("/sys/class/thermal")
#: words of /proc/cpuinfo that only one family of processors has
_WORDS = {"x86": ("vendor_id", "cpuid level"), "arm": ("CPU implementer", "CPU part"), "riscv": ("hart", "isa")}
_FAMILIES = {"x86_64": "x86", "i686": "x86", "aarch64": "arm", "armv7l": "arm", "riscv64": "riscv"}


@dataclass(frozen=True)
class Health:
    """What the system says; None where it does not."""

    load: float | None = None  # programs that wanted its cores, over the last minute
    celsius: float | None = None  # of its warmest part


def health(proc: Path = _PROC, thermal: Path = _THERMAL) -> Health:
    try:
        load: float | None = float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        load = None
    warmest: float | None = None
    for file in thermal.glob("thermal_zone*/temp"):
        try:
            celsius = int(file.read_text()) / 1000
        except (OSError, ValueError):
            continue
        if 0 < celsius < 150:  # zones that are not wired say anything
            warmest = celsius if warmest is None else max(warmest, celsius)
    return Health(load, warmest)


def emulator(proc: Path = _PROC, machine: str | None = None) -> str:
    """What emulates the processor of this process; "" if nothing does.

    A user-mode emulator (qemu) hides behind `/proc/self/exe`, and not behind that of the thread; and `/proc/cpuinfo` is the host's
    where it does not make one up.
    """
    machine = machine or platform.machine()
    try:
        program = (proc / "thread-self" / "exe").resolve(strict=True).name
    except OSError:
        program = ""
    if "qemu" in program:
        return program
    try:
        said = (proc / "cpuinfo").read_text(errors="replace")
    except OSError:
        return ""
    if "qemu" in said.lower() and "tcg" in said.lower():
        return "qemu"
    families = {family for family, words in _WORDS.items() if all(f"{word}\t" in said or f"{word} " in said for word in words)}
    own = _FAMILIES.get(machine)
    if families and own is not None and own not in families:
        return f"an emulator of {machine} on {', '.join(sorted(families))}"
    return ""


def python() -> str:
    return f"{platform.python_implementation()} {sys.version.split()[0]}"
