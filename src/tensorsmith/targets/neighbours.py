"""Who else uses the cores of this process, so that whoever measures can say so.

The system counts seconds of CPU time: of all processes on each core, of this process and all that it started, of the host of a
virtual machine, of a control group that has used up its share. Two readings say what others took between them. Those who measure
also announce themselves, so that two of them on the same cores find out. All of it is Linux's; elsewhere nothing is noticed.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tensorsmith.targets.host import control_groups

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_FIRST_LOOK = 1.0  # seconds into a measurement, when there is enough to tell from
_SHORTEST = 0.3  # seconds between two readings that say anything: the system counts in hundredths
_LEAST_CORES = 0.3  # that others keep busy before it is said,
_LEAST_SHARE = 0.05  # or that share of the cores, if that is more: the two counts of the system differ by some per cent
_LEAST_STOLEN = 0.05  # of the cores' time, by the host
_LEAST_THROTTLED = 0.02  # of the threads' time, by the control group
_NAME = re.compile(r"@tensorsmith/(\w+)/(\d+)/([\d,]*)$")


@dataclass(frozen=True)
class Reading:
    """What the system had counted at a moment: seconds of CPU time; None where it does not say."""

    moment: float  # of a clock that only goes forward
    cpus: int  # that this process may use
    busy: float | None = None  # of all processes on those
    ours: float | None = None  # of this process and all that it started
    stolen: float | None = None  # given to other machines by the host of this one
    throttled: float | None = None  # for which threads of this process's control group had to stand still


@dataclass(frozen=True)
class Measuring:
    """A process that measures on the same cores: "tuning" or "bench"."""

    what: str
    process: int


def read(proc: Path = _PROC, groups: Path = _GROUPS) -> Reading:
    """What the system has counted up to now. Takes some milliseconds, and never fails."""
    cpus = _allowed()
    busy, stolen = _of_cpus(proc, cpus)
    return Reading(time.monotonic(), len(cpus), busy, _of_family(proc), stolen, _throttled(proc, groups))


def complaints(first: Reading, last: Reading, threads: int) -> list[str]:
    """What disturbed a measurement with so many threads between two readings; nothing, if little did or if it cannot be known."""
    seconds, cpus = last.moment - first.moment, last.cpus
    if seconds < _SHORTEST:
        return []
    found = []
    busy, ours = _passed(first.busy, last.busy), _passed(first.ours, last.ours)
    if busy is not None and ours is not None:
        others = (busy - ours) / seconds
        if others > max(0, cpus - threads) + max(_LEAST_CORES, _LEAST_SHARE * cpus):
            found.append(f"other programs: {others:.1f} of the {cpus} cores")
    stolen = _passed(first.stolen, last.stolen)
    if stolen is not None and stolen > _LEAST_STOLEN * cpus * seconds:
        found.append(f"the host of this virtual machine: {stolen / cpus / seconds:.0%} of its cores' time")
    throttled = _passed(first.throttled, last.throttled)
    if throttled is not None and throttled > _LEAST_THROTTLED * threads * seconds:
        found.append(f"the CPU limit of this container: stopped for {throttled / threads / seconds:.0%} of the time")
    return found


class Watch:
    """Says what disturbs a measurement: once when it has gone on for a moment, and at its end what did so in the meantime."""

    def __init__(self, say: Callable[[str], None], threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._threads, self._clock = say, threads, clock
        self._first, self._looked = read(), False
        for other in measuring():
            say(
                f"another measurement ({other.what}, process {other.process}) runs on the same cores: each disturbs the other; "
                "stop one of them"
            )

    def look(self) -> None:
        """To be called now and then; most calls do nothing."""
        if not self._looked and self._clock() - self._first.moment >= _FIRST_LOOK:
            self.look_now()

    def look_now(self) -> None:
        """Says what disturbs it, and counts anew."""
        self._looked, now = True, read()
        if found := complaints(self._first, now, self._threads):
            self._say(f"the machine is busy ({'; '.join(found)}). Times that are measured now are less sure")
        self._first = now

    def conclude(self) -> None:
        if found := complaints(self._first, read(), self._threads):
            self._say(
                f"the machine was busy meanwhile ({'; '.join(found)}). The times are less sure; measure again in a quiet hour"
            )


# -- the counts of the system ------------------------------------------------------------------------------------------------


def _passed(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _allowed() -> set[int]:
    try:
        return os.sched_getaffinity(0)
    except (AttributeError, OSError):  # not Linux
        return set(range(os.cpu_count() or 1))


def _of_cpus(proc: Path, cpus: set[int]) -> tuple[float | None, float | None]:
    """Seconds that those CPUs were busy with anything but waiting, and seconds that the host took away."""
    try:
        rows = [line.split() for line in (proc / "stat").read_text().splitlines()]
        mine = [[int(n) for n in row[1:9]] for row in rows if re.fullmatch(r"cpu\d+", row[0]) and int(row[0][3:]) in cpus]
        if not mine or any(len(row) < 8 for row in mine):
            return None, None
    except (OSError, ValueError, IndexError):
        return None, None
    tick = _tick()
    busy = sum(user + nice + system + irq + softirq for user, nice, system, _, _, irq, softirq, _ in mine)
    return busy * tick, sum(row[7] for row in mine) * tick


def _of_family(proc: Path) -> float | None:
    """Seconds of this process and of all that descend from it, with those of their children that have ended."""
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    try:
        for folder in proc.iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                parent, ticks = int(fields[1]), sum(map(int, fields[11:15]))
            except (OSError, ValueError, IndexError):  # it has just ended
                continue
            used[int(folder.name)] = ticks
            children.setdefault(parent, []).append(int(folder.name))
    except OSError:
        return None
    if os.getpid() not in used:
        return None
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += used[process]
        waiting += children.get(process, [])
    return total * _tick()


def _throttled(proc: Path, groups: Path) -> float | None:
    """Seconds for which threads of a control group of this process had to stand still: of the one that is limited most."""
    found = []
    for folder in control_groups(proc / "self" / "cgroup", groups):
        try:
            facts = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
            if "throttled_usec" in facts:
                found.append(int(facts["throttled_usec"]) * 1e-6)
            elif "throttled_time" in facts:
                found.append(int(facts["throttled_time"]) * 1e-9)
        except (OSError, ValueError):
            continue
    return max(found, default=None)


def _tick() -> float:
    return 1.0 / os.sysconf("SC_CLK_TCK")


# -- who measures ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def announced(what: str) -> Iterator[None]:
    """Lets others on these cores see that this process measures, while it does.

    The sign is a socket with a name and without a file: it is gone with the process, however that ends.
    """
    sign = None
    with contextlib.suppress(OSError, AttributeError):
        if sys.platform == "linux":
            sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sign.bind(f"\0tensorsmith/{what}/{os.getpid()}/{','.join(map(str, sorted(_allowed())))}")
    try:
        yield
    finally:
        if sign is not None:
            sign.close()


def measuring(proc: Path = _PROC) -> list[Measuring]:
    """Other processes that measure on cores that this one may use."""
    try:
        lines = (proc / "net" / "unix").read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for match in filter(None, map(_NAME.search, lines)):
        what, process, cpus = match.groups()
        if int(process) != os.getpid() and _allowed() & {int(n) for n in cpus.split(",") if n}:
            found.append(Measuring(what, int(process)))
    return found
