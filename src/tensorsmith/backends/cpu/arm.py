"""AArch64 under Linux: what the system says of the processor that this process runs on.

LLVM's guess reads a text that emulators and some systems lack, and then says "generic" without features. The kernel tells every
process which instructions it may use (HWCAP, a word of bits), how long scalable vectors are, and in sysfs which core it is.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_HWCAP, _HWCAP2 = 16, 26  # words of the auxiliary vector: include/uapi/linux/auxvec.h
_SVE_LENGTH = 51  # PR_SVE_GET_VL: include/uapi/linux/prctl.h
_LENGTH_BYTES = 0xFFFF  # the part of its answer that is the length

#: bits of the two words (arch/arm64/include/uapi/asm/hwcap.h), and what LLVM calls instructions that come with them
_BITS: tuple[tuple[int, int, str], ...] = (
    (0, 0, "fp-armv8"), (0, 1, "neon"), (0, 3, "aes"), (0, 6, "sha2"), (0, 7, "crc"), (0, 8, "lse"), (0, 10, "fullfp16"),
    (0, 12, "rdm"), (0, 13, "jsconv"), (0, 14, "complxnum"), (0, 15, "rcpc"), (0, 17, "sha3"), (0, 20, "dotprod"), (0, 22, "sve"),
    (0, 23, "fp16fml"), (0, 26, "rcpc-immo"), (1, 1, "sve2"), (1, 8, "fptoint"), (1, 13, "i8mm"), (1, 14, "bf16"),
)  # fmt: skip

#: LLVM's names of cores by maker and part (the register MIDR_EL1; numbers of the makers' manuals)
_CORES = {
    (0x41, 0xD03): "cortex-a53", (0x41, 0xD04): "cortex-a35", (0x41, 0xD05): "cortex-a55", (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72", (0x41, 0xD09): "cortex-a73", (0x41, 0xD0A): "cortex-a75", (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1", (0x41, 0xD0D): "cortex-a77", (0x41, 0xD40): "neoverse-v1", (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD44): "cortex-x1", (0x41, 0xD46): "cortex-a510", (0x41, 0xD47): "cortex-a710", (0x41, 0xD48): "cortex-x2",
    (0x41, 0xD49): "neoverse-n2", (0x41, 0xD4F): "neoverse-v2", (0x46, 0x001): "a64fx", (0x61, 0x022): "apple-m1",
    (0x61, 0x023): "apple-m1",
}  # fmt: skip
_IMPLEMENTER = re.compile(r"^CPU implementer\s*:\s*(0x[0-9a-f]+)", re.M | re.I)
_PART = re.compile(r"^CPU part\s*:\s*(0x[0-9a-f]+)", re.M | re.I)


@dataclass(frozen=True)
class Core:
    """LLVM's name of it, features that it has and has not, and bytes of its scalable vectors (0: it has none)."""

    name: str
    features: str
    scalable_bytes: int


def this_core(cpus: Iterable[int]) -> Core:
    """The core that this process runs on; of several kinds of them, that of the first of the CPUs."""
    libc = ctypes.CDLL(None)
    libc.getauxval.restype = ctypes.c_ulong
    libc.getauxval.argtypes = [ctypes.c_ulong]
    words = (int(libc.getauxval(_HWCAP)), int(libc.getauxval(_HWCAP2)))
    return core(words, lambda: int(libc.prctl(_SVE_LENGTH, 0, 0, 0, 0)), core_name(min(cpus, default=0)))


def core(words: tuple[int, int], scalable: Callable[[], int], name: str) -> Core:
    """Of the words of bits, and of what the system answers when asked for the length of scalable vectors (negative: an error)."""
    has = {feature: bool(words[word] >> bit & 1) for word, bit, feature in _BITS}
    answer = scalable() if has["sve"] else 0
    features = ",".join(f"{'+' if on else '-'}{feature}" for feature, on in sorted(has.items()))
    return Core(name, features, answer & _LENGTH_BYTES if answer > 0 else 0)


def kernel_bits(features: Iterable[str]) -> tuple[int, int]:
    """The bits of both words that a kernel sets where these features are; of those it tells."""
    wanted = set(features)
    first, second = (sum(1 << bit for word, bit, feature in _BITS if word == n and feature in wanted) for n in (0, 1))
    return first, second


def core_name(cpu: int, system: Path = Path("/sys/devices/system/cpu"), proc: Path = Path("/proc/cpuinfo")) -> str:
    """LLVM's name of a core by its identification; "generic" where nobody says, or for one that is not on the list."""
    try:
        register = int((system / f"cpu{cpu}" / "regs" / "identification" / "midr_el1").read_text(), 16)
        return _CORES.get((register >> 24 & 0xFF, register >> 4 & 0xFFF), "generic")
    except (OSError, ValueError):
        pass
    try:
        text = proc.read_text(errors="replace")
    except OSError:
        return "generic"
    maker, part = _IMPLEMENTER.search(text), _PART.search(text)
    return _CORES.get((int(maker[1], 16), int(part[1], 16)), "generic") if maker and part else "generic"
