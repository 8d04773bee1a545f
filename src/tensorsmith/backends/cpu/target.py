"""CPUs: the facts about one that the space, the code generator and the features use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tensorsmith.targets.target import Target


@dataclass(frozen=True)
class CpuTarget(Target):
    """A CPU. Sizes are in bytes. A fact that is added takes its default in all that was stored before."""

    kind: ClassVar[str] = "cpu"

    triple: str  # LLVM's name of machine and system, "x86_64-unknown-linux-gnu"
    cpu: str  # LLVM's name of the processor, "znver3"
    features: str = ""  # of LLVM's, "+avx2,+fma,-avx512f"; code may use those with a plus, whatever the processor's usual ones are
    vector_bytes: int = 16  # of one vector register
    vector_registers: int = 16
    l1_bytes: int = 32 << 10  # of the first cache for data
    l1_ways: int = 8  # lines of the first cache that may lie at addresses which differ by a multiple of its size over its ways
    l2_bytes: int = 512 << 10  # of the second cache, one per core
    l3_bytes: int = 8 << 20  # of the last cache, which cores share
    line_bytes: int = 64  # of a cache line
    cores: int = 1  # threads that a program runs on
    fma_latency: int = 4  # cycles until a multiply-add's result can be used
    fmas_per_cycle: int = 2  # vector multiply-adds that may start in a cycle
    page_bytes: int = 4096  # of virtual memory
    in_order: bool = False  # instructions wait for those before them, loads too

    @property
    def name(self) -> str:
        return self.triple.split("-")[0] if self.cpu.startswith("generic") else self.cpu

    @property
    def key(self) -> str:
        architecture = self.triple.split("-")[0] + ("+relaxed" if self.relaxed_bytes else "")
        return f"{architecture}/{self.cpu}/v{self.vector_bytes}x{self.vector_registers}/c{self.cores}"

    def lanes(self, element_bytes: int = 4) -> int:
        """How many elements of that size one vector register holds."""
        return max(1, self.vector_bytes // element_bytes)

    @property
    def shared_cache_bytes(self) -> int:
        return self.l3_bytes

    @property
    def core_cache_bytes(self) -> int:
        return self.l2_bytes

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
    def is_riscv(self) -> bool:
        return self.triple.startswith("riscv")

    @property
    def is_wasm(self) -> bool:
        return self.triple.startswith("wasm")

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds in one instruction that rounds once."""
        return self.has("fma") if self.is_x86 else not self.is_wasm

    @property
    def folds_loads(self) -> bool:
        """Whether a multiply-add can read an operand from any address: x86 since AVX."""
        return self.is_x86 and self.fuses

    @property
    def interleaved_bytes(self) -> int:
        """How much of a vector an instruction interleaves with that of another: x86 each 16 bytes by themselves."""
        return min(_INTERLEAVED_X86, self.vector_bytes) if self.is_x86 else self.vector_bytes

    @property
    def halves_are_free(self) -> bool:
        """Whether two vectors of half the size take as long as one: x86 that makes those of 64 bytes in two units of 32."""
        return self.is_x86 and self.vector_bytes == 64 and self.fmas_per_cycle == 1

    @property
    def relaxed_bytes(self) -> int:
        """Bytes of the vectors that have an instruction which may round once or twice: WebAssembly's; 0 elsewhere."""
        return self.vector_bytes if self.has("relaxed-simd") else 0

    @property
    def chooses_half(self) -> bool:
        """Whether LLVM can write code that compares vectors of f16 or chooses between them: for WebAssembly it never ends."""
        return not self.is_wasm

    @property
    def fuses_half(self) -> bool:
        """Whether it does so with f16."""
        return self.is_aarch64 and self.has("fullfp16")

    @property
    def scalable_bytes(self) -> int:
        """Bytes of the scalable vectors (SVE) that its code is made for; 0: vectors of the usual size are used instead.

        Such code is right only where vectors have just this size.
        """
        return self.vector_bytes if self.is_aarch64 and self.has("sve") and self.vector_bytes > _NEON_BYTES else 0

    @property
    def needed_features(self) -> tuple[str, ...]:
        """Features that a machine must have to run its code; some of LLVM's say only what is fast."""
        return tuple(f[1:] for f in self.features.split(",") if f.startswith("+") and f[1:] not in _ADVICE)

    @property
    def multiplies_pairs(self) -> bool:
        from tensorsmith.backends.cpu.instructions import small_dots  # of which this class knows nothing

        return any(i.lanes == self.lanes(4) for i in small_dots(self))

    @property
    def chains(self) -> int:
        """Multiply-adds that must be under way at once to keep the units busy."""
        return self.fma_latency * self.fmas_per_cycle

    def describe(self) -> dict[str, str]:
        known = [f for f in _TOLD if self.has(f)]
        caches = f"L1 {_size(self.l1_bytes)}, {self.l1_ways} ways; L2 {_size(self.l2_bytes)}; L3 {_size(self.l3_bytes)}"
        return {
            "cpu": f"{self.cpu} ({self.triple})",
            "features": " ".join(known) or "none of the usual ones",
            "vectors": f"{self.vector_registers} registers of {self.vector_bytes} bytes: {self.lanes(4)} lanes of f32",
            "caches": caches,
            "threads": str(self.cores),
        }

    @classmethod
    def detect(cls) -> CpuTarget:
        from tensorsmith.backends.cpu.detect import detect  # which asks LLVM; who only reads facts need not load it

        return detect()

    @classmethod
    def catalogue(cls) -> Mapping[str, CpuTarget]:
        from tensorsmith.backends.cpu.named import NAMED  # data made of this class

        return NAMED


_INTERLEAVED_X86 = 16
_NEON_BYTES = 16  # of AArch64's vectors that are not scalable

#: features that people are told of
_TOLD = (
    *("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512vnni", "avx512bf16"),
    *("neon", "fullfp16", "dotprod", "i8mm", "bf16", "sve", "sve2", "v", "simd128", "relaxed-simd"),
)  # fmt: skip
#: features that no machine lacks: how LLVM is to choose instructions
_ADVICE = frozenset({"slow-paired-128"})


def _size(n: int) -> str:
    return f"{n >> 20} MB" if n >= 1 << 20 else f"{n >> 10} KB"


TARGET = CpuTarget
