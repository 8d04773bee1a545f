"""Process settings that a contest needs. Import this module before OpenVINO.

Everyone's threads are left as their makers ship them: they may spin after a call as long as they like, for the pause before the
next slot is longer (`machine`).
"""

from __future__ import annotations

import ctypes
import os

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
