"""A CUDA device as a target: what the driver tells of it."""

from __future__ import annotations

from typing import Any

from tensorsmith.backends.gpu.library.api import Api
from tensorsmith.backends.gpu.named import NAMED, word
from tensorsmith.backends.gpu.target import GpuTarget

#: cuda.h, `CUdevice_attribute`: numbers that the driver gives for each of our facts
ATTRIBUTES = {
    "threads": 1, "shared_bytes": 8, "warp": 10, "clock_khz": 13, "multiprocessors": 16, "memory_khz": 36, "bus_bits": 37,
    "l2_bytes": 38, "threads_per_multiprocessor": 39, "major": 75, "minor": 76, "shared_bytes_per_multiprocessor": 81,
    "registers": 82, "blocks_per_multiprocessor": 106, "shared_bytes_reserved": 111,
}  # fmt: skip

#: multiply-adds of a multiprocessor in a cycle by compute capability (CUDA C++ Programming Guide, "Arithmetic Instructions")
_LANES = {(5, 0): 128, (5, 2): 128, (6, 0): 64, (6, 1): 128, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
_NEWER_LANES = 128
_MATRIX = (8, 0)  # the first that has matrix instructions of 16 x 8 x 16, and copies that go on while threads do
_LEAST_MATRIX = 2.0  # times the other rate: the least of those that we know


def target(api: Api, number: int = 0) -> GpuTarget:
    """What the driver tells of a device. Rates follow from clocks and widths."""
    told = api.told(ATTRIBUTES, number)
    capability = told.pop("major"), told.pop("minor")
    clock = told.pop("clock_khz") * 1e3 or 1.5e9
    flops = 2.0 * _LANES.get(capability, _NEWER_LANES) * clock * told["multiprocessors"]
    memory = 2.0 * told.pop("memory_khz") * 1e3 * told.pop("bus_bits") / 8  # both edges of the clock
    memory = memory or flops / 12  # a driver that does not tell; what such devices have
    known = next((t for t in NAMED.values() if t.architecture == _architecture(capability)), None)
    ratio = known.l2_bytes_per_second / known.bytes_per_second if known else 3.0
    matrix = known.matrix_flops / known.flops if known else _LEAST_MATRIX * (capability >= _MATRIX)
    facts: dict[str, Any] = {fact: value for fact, value in told.items() if value}  # an older driver does not know all
    return GpuTarget(
        word(api.device_name(number)),
        "cuda",
        _architecture(capability),
        **facts,
        clock=clock,
        flops=flops,
        bytes_per_second=memory,
        l2_bytes_per_second=ratio * memory,
        matrix_flops=matrix * flops,
        registers_per_block=known.registers_per_block if known else 0,
        first_cache_bytes=known.first_cache_bytes if known else 0,
        copies_apart=capability >= _MATRIX,
    )


def _architecture(capability: tuple[int, int]) -> str:
    return f"sm_{capability[0]}{capability[1]}"
