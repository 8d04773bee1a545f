"""Whether a machine runs this process at all, or an emulator of one: what takes long there says nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_PROC = Path("/proc")
#: words of /proc/cpuinfo that only one family of processors has
_WORDS = {"x86": ("vendor_id", "cpuid level"), "arm": ("CPU implementer", "CPU part"), "riscv": ("hart", "isa")}
_FAMILIES = {"x86_64": "x86", "i686": "x86", "aarch64": "arm", "armv7l": "arm", "riscv64": "riscv"}


def emulator(proc: Path = _PROC, machine: str | None = None) -> str:
    """What emulates the processor of this process; "" if nothing does.

    A user-mode emulator (qemu) puts what it runs behind `/proc/self/exe`, and newer ones behind that of the thread; the name of the
    process stays its own. `/proc/cpuinfo` is the host's where it is not made up.
    """
    machine = machine or platform.machine()
    for program in (_program(proc), _text(proc / "self" / "comm").strip()):
        if "qemu" in program:
            return program
    said = _text(proc / "cpuinfo")
    if "qemu" in said.lower() and "tcg" in said.lower():
        return "qemu"
    families = {family for family, words in _WORDS.items() if all(f"{word}\t" in said or f"{word} " in said for word in words)}
    own = _FAMILIES.get(machine)
    if families and own is not None and own not in families:
        return f"an emulator of {machine} on {', '.join(sorted(families))}"
    return ""


def _program(proc: Path) -> str:
    """The name of the program that the thread runs. Its file need not be there: a container may have no emulator of its own."""
    try:
        return Path(os.readlink(proc / "thread-self" / "exe")).name
    except OSError:
        return ""


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
