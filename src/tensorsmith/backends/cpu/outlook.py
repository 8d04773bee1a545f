"""What a CPU is expected to reach, by the target's facts and usual rates of cores, not by measuring."""

from __future__ import annotations

from tensorsmith.backends.cpu.rates import rates_of
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.targets.target import Target


def expected_roof(target: Target) -> tuple[float, float]:
    """f32 operations and bytes per second that all cores together can do at most, to within a factor of two or so."""
    assert isinstance(target, CpuTarget)
    rates = rates_of(target)
    return 2 * target.lanes(4) * rates.fma_per_cycle * rates.hertz * target.cores, rates.memory_bytes_per_cycle_all * rates.hertz
