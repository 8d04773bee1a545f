"""Whether a chain of transforms (`space/transforms.py`) is computed slice by slice or as a whole, by counting bytes.

Slices keep the transformed values in a cache, and read all constants again for each.
"""

from __future__ import annotations

import math

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.workload import Workload
from tensorsmith.space.transforms import Slices

_CONSTANTS_PER_VALUES = 5  # bytes of packed constants that are read in the time one byte is written, scattered, and read again
_LEAST_BUSY = 0.85  # of the threads' time


def may_be_whole(workload: Workload, cut: Slices, target: CpuTarget) -> bool:
    """Whether it can be worth it: if a cache holds all values, or none holds the constants, which slices would read from memory."""
    return cut.values_bytes(workload) <= target.l3_bytes or cut.constants_bytes(workload) > target.l3_bytes


def is_cut(workload: Workload, cut: Slices, rows: int, target: CpuTarget) -> bool:
    """Whether slices of so many rows of tiles are better by default: not if reading the constants for each costs more than writing
    and reading all values, or threads would wait for others."""
    values = cut.values_bytes(workload)
    if values <= target.l2_bytes:
        return False
    count = math.prod(a.extent for a in cut.lead) * -(-cut.axis.extent // rows)
    idle = count < _LEAST_BUSY * -(-count // target.cores) * target.cores
    again = count * cut.constants_bytes(workload) > _CONSTANTS_PER_VALUES * values
    return not (may_be_whole(workload, cut, target) and (idle or again))
