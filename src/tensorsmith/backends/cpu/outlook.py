"""What a CPU and a candidate for it are expected to reach, by the target's facts and usual rates of cores, not by measuring."""

from __future__ import annotations

from tensorsmith.backends.cpu.prior import estimate_seconds
from tensorsmith.backends.cpu.rates import DEFAULT
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target


def expected_seconds(candidate: Candidate, target: Target) -> float:
    """By the analytic prior. Raises `Refusal` where the candidate cannot be lowered."""
    return float(estimate_seconds(lower(candidate), target)[0])


def expected_roof(target: Target) -> tuple[float, float]:
    """f32 operations and bytes per second that all cores together can do at most, to within a factor of two or so."""
    flops = 2 * target.lanes(4) * DEFAULT.fma_per_cycle * DEFAULT.hertz * target.cores
    return flops, DEFAULT.memory_bytes_per_cycle_all * DEFAULT.hertz
