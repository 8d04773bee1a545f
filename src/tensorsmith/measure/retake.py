"""A time that was taken while other processes had the processors is taken again when they are done, within reason.

One busy process beside two threads on two cores halves the speed of whatever is timed, and goes on for seconds: for dozens of
candidates, which all look bad then and which the cost model learns from. The best of several rounds does not help. The kernel
counts how long threads were ready to run and waited for a processor (Linux); from that a time that others have spoilt is known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_SPOILT = 0.1  # of the seconds that a timing took: what its threads together waited, above which it is taken again
_AT_ONCE, _SHARE = 1.0, 0.1  # the allowance: seconds, and the share of all seconds so far that comes to them
_NAP = 2e-3  # between two looks


def waited_seconds() -> float:
    """How long the threads of this process, those alive, were ready to run and had no processor; 0 where that is not known."""
    total = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return total / 1e9


def others_running() -> int:
    """Threads of the whole machine that run or could run now, without the calling one; 0 where that is not known."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return max(0, int(file.read().split()[3].split("/")[0]) - 1)
    except (OSError, ValueError, IndexError):
        return 0


@dataclass(frozen=True)
class Machine:
    """What is asked of it; tests give others."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    waited: Callable[[], float] = waited_seconds
    others: Callable[[], int] = others_running


class Retakes:
    """Of one process that times. Waiting is on an allowance: beside something that never ends a search must go on, too."""

    def __init__(self, machine: Machine = Machine()) -> None:
        self._machine = machine
        self._born = machine.clock()
        self._spent = 0.0

    def undisturbed(self, timing: Callable[[], T]) -> T:
        """What a timing gives. One that was spoilt is made again as soon as nobody else runs, unless that takes too long."""
        m = self._machine
        while True:
            begun, waited = m.clock(), m.waited()
            result = timing()
            spoilt = m.waited() - waited > _SPOILT * (m.clock() - begun)
            ended = m.clock()
            again = spoilt and self._quiet()
            self._spent += m.clock() - ended
            if not again:
                return result
            self._spent += ended - begun  # it counted for nothing

    def _quiet(self) -> bool:
        """Sleep until two looks in a row find nobody else running, as long as the allowance lasts. Whether it came to that."""
        m = self._machine
        begun, still = m.clock(), 0
        left = _AT_ONCE + _SHARE * (begun - self._born) - self._spent
        while still < 2:
            if m.clock() - begun > left:
                return False
            m.sleep(_NAP)
            still = 0 if m.others() else still + 1
        return True
