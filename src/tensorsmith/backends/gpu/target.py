"""GPUs: the facts about one that the space, the printers and the features use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensorsmith.targets.target import Target

DIALECTS = ("opencl", "cuda", "amd")
REGISTER_STEP = 8  # registers of a thread come in multiples of this many


@dataclass(frozen=True)
class GpuTarget(Target):
    """A GPU. Sizes are in bytes, rates in a second. A fact that is added takes its default in all that was stored before.

    A multiprocessor is what runs whole blocks of threads: NVIDIA's SM, AMD's compute unit, OpenCL's compute unit.
    """

    kind: ClassVar[str] = "gpu"

    device: str  # what people call it, "a100"
    dialect: str = "opencl"  # how code for it is written and loaded, one of `DIALECTS`
    architecture: str = ""  # LLVM's name of it, "sm_80", "gfx942"; "": its driver compiles
    warp: int = 32  # threads that run in step
    multiprocessors: int = 1
    registers: int = 65536  # of 32 bits, of a multiprocessor
    registers_per_block: int = 0  # that one block may have; 0: all of a multiprocessor's
    registers_per_thread: int = 255  # that one thread may have
    register_unit: int = 256  # registers are given to a warp in multiples of this many
    shared_bytes: int = 32 << 10  # that one block may have
    shared_bytes_per_multiprocessor: int = 64 << 10
    shared_bytes_reserved: int = 0  # of each block, by the driver; counts against the multiprocessor's, not against the block's
    first_cache_bytes: int = 0  # of a multiprocessor's first cache, with shared memory where that is part of it; 0: as that
    shared_banks: int = 32  # of four bytes each: what shared memory gives in a cycle
    threads: int = 1024  # that one block may have
    threads_per_multiprocessor: int = 2048
    blocks_per_multiprocessor: int = 16
    schedulers: int = 4  # instructions of different warps that a multiprocessor starts in a cycle
    sector_bytes: int = 32  # the least that is fetched from device memory
    l2_bytes: int = 4 << 20  # of the cache that all multiprocessors share
    clock: float = 1e9  # cycles, under load
    flops: float = 1e12  # in f32, a multiply-add being two
    bytes_per_second: float = 1e11  # of device memory
    l2_bytes_per_second: float = 3e11  # of the shared cache
    matrix_flops: float = 0.0  # of `mma.sync` m16n8k16 with f16 factors and f32 sums, a multiply-add being two; 0: there is none
    copies_apart: bool = False  # whether copies to shared memory can go on while threads do: `cp.async`
    board: str = ""  # which board of a device whose chip is sold on several, with different clocks

    @property
    def name(self) -> str:
        return self.device

    @property
    def cores(self) -> int:
        return self.multiprocessors

    @property
    def key(self) -> str:
        chip = f"{self.architecture or self.device}/w{self.warp}/m{self.multiprocessors}/s{self.shared_bytes >> 10}"
        return f"gpu/{self.dialect}/{chip}" + (f"/{self.board}" if self.board else "")

    def lanes(self, element_bytes: int = 4) -> int:
        """The threads of a warp, whatever they work on."""
        return self.warp

    @property
    def shared_cache_bytes(self) -> int:
        return self.l2_bytes

    @property
    def core_cache_bytes(self) -> int:
        return self.shared_bytes_per_multiprocessor

    @property
    def fmas_per_cycle(self) -> float:
        """Multiply-adds of single threads in f32 that one multiprocessor does in a cycle."""
        return self.flops / (2 * self.clock * self.multiprocessors)

    def first_cache_room(self, shared_bytes: Any) -> Any:
        """Bytes of a multiprocessor's first cache beside so many of shared memory, mostly a part of it; arrays are taken."""
        if 0 < self.first_cache_bytes < self.shared_bytes_per_multiprocessor:
            return self.first_cache_bytes + 0 * shared_bytes
        return np.maximum(0, (self.first_cache_bytes or self.shared_bytes_per_multiprocessor) - shared_bytes)

    @property
    def fetches_ahead(self) -> bool:
        """Whether loops fetch the next tiles while they use some. PoCL computes some such loops wrongly, in which our interpreter
        and oclgrind find nothing wrong; and without copies that go on by themselves there is little to gain."""
        return self.dialect != "opencl"

    def registers_of(self, threads: Any) -> Any:
        """Registers that a thread of a block of so many may have: all of the block's are there at once. Arrays are taken too."""
        each = (self.registers_per_block or self.registers) // np.maximum(1, threads) // REGISTER_STEP * REGISTER_STEP
        return np.minimum(self.registers_per_thread, each)

    @property
    def matrix_fmas_per_cycle(self) -> float:
        """Multiply-adds of matrix instructions that one multiprocessor does in a cycle; as many as otherwise where it has none."""
        return self.matrix_flops / (2 * self.clock * self.multiprocessors) or self.fmas_per_cycle

    def describe(self) -> dict[str, str]:
        multi = f"{self.registers_per_thread} of {self.registers} registers, {self.shared_bytes >> 10} KB of shared memory"
        return {
            "gpu": f"{self.device} ({self.architecture or self.dialect})",
            "multiprocessors": f"{self.multiprocessors} at {self.clock / 1e9:.2f} GHz, warps of {self.warp} threads",
            "a thread and its block": f"{multi}, {self.threads} threads",
            "caches": f"L2 {self.l2_bytes / (1 << 20):g} MB",
            "rates": f"{self.flops / 1e12:.1f} TFLOP/s in f32, "
            + (f"{self.matrix_flops / 1e12:.0f} by matrix instructions in f16, " if self.matrix_flops else "")
            + f"{self.bytes_per_second / 1e9:.0f} GB/s",
        }

    @classmethod
    def detect(cls) -> GpuTarget:
        from tensorsmith.backends.gpu.detect import detect  # which loads drivers; who only reads facts need not

        return detect()

    @classmethod
    def found_by(cls) -> Mapping[str, Callable[[], GpuTarget]]:
        from tensorsmith.backends.gpu.detect import FOUND_BY

        return FOUND_BY

    @classmethod
    def catalogue(cls) -> Mapping[str, GpuTarget]:
        from tensorsmith.backends.gpu.named import NAMED  # data made of this class

        return NAMED


TARGET = GpuTarget
