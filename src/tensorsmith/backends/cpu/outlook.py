"""What a CPU is expected to reach, by the target's facts and usual rates of cores, not by measuring."""

from __future__ import annotations

from tensorsmith.backends.cpu.rates import DEFAULT
from tensorsmith.targets.target import Target


def expected_roof(target: Target) -> tuple[float, float]:
    """f32 operations and bytes per second that all cores together can do at most, to within a factor of two or so."""
    flops = 2 * target.lanes(4) * DEFAULT.fma_per_cycle * DEFAULT.hertz * target.cores
    return flops, DEFAULT.memory_bytes_per_cycle_all * DEFAULT.hertz
