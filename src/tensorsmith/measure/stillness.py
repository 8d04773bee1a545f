"""When the machine is still: the pause before a slot, and what disturbs one.

On a shared virtual machine two things take processors away from a contestant. Other processes of this machine show in the number of
threads that are ready to run. Other machines on the same host do not; what the host gives to them while we are ready to run is the
"steal" time of the kernel's statistics. A slot is disturbed by either.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tensorsmith.measure.retake import others_running

PAUSE_SECONDS = 20e-3  # before every slot, at least; threads spin on for about 10 ms (libgomp's) or 50 ms (ONNX Runtime's)
STOLEN = 0.05  # of a slot's processor time, above which the slot is disturbed; one of the kernel's hundredths in 0.1 s of 2 cores


@dataclass(frozen=True)
class Machine:
    """The clock, what waits for stillness and says whether it came, and the seconds stolen so far; tests give others."""

    clock: Callable[[], float] = time.perf_counter
    settle: Callable[[], bool] = lambda: settle()
    stolen: Callable[[], float] = lambda: stolen_seconds()
    processors: int = os.cpu_count() or 1


def settle(pause: float = PAUSE_SECONDS, most: float = 0.3, nap: float = 1e-3) -> bool:
    """Sleep for the `pause`, and on until no thread but the calling one runs, be it one of ours that spins or another process's,
    `most` seconds at the longest. Whether it came to that: two looks in a row must find nobody.

    Looks, because the kernel adds to a process's time what its other threads have used only a few times in a hundredth of a second:
    by that clock a spinning thread seems asleep most of the time.
    """
    time.sleep(pause)
    end, still = time.perf_counter() + most, 0
    while still < 2:
        still = 0 if others_running() else still + 1
        if time.perf_counter() >= end:
            return False
        time.sleep(nap)
    return True


def stolen_seconds() -> float:
    """Processor time that the host gave to others while this machine was ready to run, since it started; 0 where that is not known.
    The kernel counts it in hundredths of a second."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
