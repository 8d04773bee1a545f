"""Process settings that must be made before torch is imported. Import this module first.

torch's OpenMP threads (libgomp) spin after a region. Measured here, torch alone: with `OMP_WAIT_POLICY=PASSIVE` every
region costs some 40 us more (a 128^3 matmul 70 us instead of 28); with ACTIVE, or the default of 300,000 looks, the
threads go on spinning for 2 to 5 ms after the last call, on the cores that the next contestant needs. Ten thousand
looks are about 0.1 ms: longer than any gap between torch's own regions, so torch loses nothing, and over soon.
"""

from __future__ import annotations

import ctypes
import os

SPIN_LOOKS = 10_000

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_LOOKS))
os.environ.setdefault("KMP_BLOCKTIME", "1")  # milliseconds; for a torch built with Intel's OpenMP
os.environ.setdefault("OPENVINO_TELEMETRY_DISABLED", "1")


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory instead of handing it back to the system; whether it obeyed.

    torch allocates its result on every call. Results above 32 MB (and some smaller ones) would be page-faulted in
    anew each time, which is the allocator's cost and not the kernel's.
    """
    mmap_max, trim_threshold = -4, -1
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(mmap_max, 0) and mallopt(trim_threshold, 2**31 - 1))
