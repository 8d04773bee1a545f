"""Times that others have spoilt are taken again; on a machine whose clock, neighbours and naps are made up."""

from __future__ import annotations

import os
import threading
import time
import zlib
from pathlib import Path

import pytest

from tensorsmith.measure.retake import Machine, Retakes, waited_seconds


class Simulated:
    """Others run until a certain time; while they do, whoever is timed waits half of it."""

    def __init__(self, busy_until: float) -> None:
        self.now, self.waited, self.busy_until = 0.0, 0.0, busy_until
        self.timings: list[float] = []
        self.machine = Machine(lambda: self.now, self.sleep, lambda: self.waited, lambda: int(self.now < self.busy_until))

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def timing(self) -> float:
        """Ten milliseconds of work."""
        busy = self.now < self.busy_until
        self.now += 0.02 if busy else 0.01
        self.waited += 0.01 if busy else 0.0
        self.timings.append(0.02 if busy else 0.01)
        return self.timings[-1]


def test_what_nobody_disturbs_is_timed_once() -> None:
    s = Simulated(busy_until=0.0)
    assert Retakes(s.machine).undisturbed(s.timing) == 0.01 and s.timings == [0.01]


def test_what_others_have_spoilt_is_timed_again_when_they_are_done() -> None:
    s = Simulated(busy_until=0.6)
    assert Retakes(s.machine).undisturbed(s.timing) == 0.01 and s.timings == [0.02, 0.01]
    assert 0.6 < s.now < 0.65


def test_a_little_is_no_disturbance() -> None:
    s = Simulated(busy_until=0.0)

    def timing() -> float:
        s.waited += 0.0005
        return s.timing()

    assert Retakes(s.machine).undisturbed(timing) == 0.01 and len(s.timings) == 1


def test_beside_something_that_never_ends_a_search_goes_on() -> None:
    s = Simulated(busy_until=float("inf"))
    retakes = Retakes(s.machine)
    for _ in range(1000):
        assert retakes.undisturbed(s.timing) == 0.02
    alone = 1000 * 0.02
    assert len(s.timings) == 1000 and alone < s.now < 1.2 * alone + 2.0


def test_the_allowance_comes_back_with_time() -> None:
    s = Simulated(busy_until=float("inf"))
    retakes = Retakes(s.machine)
    while s.now < 3.0:
        retakes.undisturbed(s.timing)
    s.busy_until = 0.0
    for _ in range(1000):
        retakes.undisturbed(s.timing)
    s.busy_until = s.now + 0.5
    assert retakes.undisturbed(s.timing) == 0.01


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not say how long threads wait")
def test_the_kernel_counts_how_long_threads_wait() -> None:
    """More threads that spin than there are processors: some wait."""
    count = 2 * (os.cpu_count() or 1) + 2
    stop = threading.Event()
    spinning = [threading.Thread(target=_spin, args=(stop,)) for _ in range(count)]
    before = waited_seconds()
    for thread in spinning:
        thread.start()
    for _ in range(6000):
        found = waited_seconds() - before
        if found > 0.05:
            break
        time.sleep(0.01)
    stop.set()
    for thread in spinning:
        thread.join()
    assert found > 0.05


def _spin(stop: threading.Event) -> None:
    """Without the lock that lets one thread of Python run at a time."""
    data = bytes(1 << 20)
    while not stop.is_set():
        zlib.crc32(data)
