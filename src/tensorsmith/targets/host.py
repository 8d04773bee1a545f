"""The machine that this process runs on: how many threads are worth having, and how much memory there is."""

from __future__ import annotations

import functools
import math
import os
import warnings
from pathlib import Path

from tensorsmith.errors import Parameter, UserError

MOST_THREADS = 4096  # of one program: more than any machine has
THREADS = "TENSORSMITH_NUM_THREADS"  # the environment variable that says how many threads to use


def thread_count() -> int:
    """Threads a parallel region uses: `TENSORSMITH_NUM_THREADS`, else the cores that this process may use.

    It may use those that its affinity allows, and no more than the CPU time that its container is granted.
    """
    given = os.environ.get(THREADS)
    if given is not None:
        if not given.strip().isdigit() or int(given) < 1:
            raise UserError(f"{THREADS} is {given!r}; give a whole number of threads, at least 1")
        return int(given)
    return allowed_cores()


def allowed_cores() -> int:
    """The cores that this process may use at once."""
    try:
        allowed = max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    quota = cpu_quota()
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def check_threads(threads: int | None, here: bool = True) -> None:
    """Raises `UserError` for what is no number of threads. More than there are cores `here` is a warning: threads take turns then,
    and a program that is shared out to them waits for the last."""
    if threads is None:
        return
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise UserError(Parameter("threads"), f" is {threads!r}; give a whole number, 1 to {MOST_THREADS}")
    if here and threads > (cores := allowed_cores()):
        warnings.warn(
            f"{threads} threads on the {cores} core{'s' * (cores > 1)} that this process may use: they will take turns",
            stacklevel=4,
        )


def cpu_quota(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """How many CPUs' time the control groups of this process grant it (Linux; containers are limited so); None: no limit.

    A group is limited by those it is in, so the least counts, from the process's own up to the root.
    """
    found = [quota(folder) for folder in control_groups(proc, root) for quota in (_quota_v2, _quota_v1)]
    return min((quota for quota in found if quota is not None), default=None)


def control_groups(proc: Path, root: Path) -> list[Path]:
    """The folders of the control groups that limit this process's CPU time, from its own up to the root; some may not exist."""
    try:
        lines = [line.split(":", 2) for line in proc.read_text().splitlines()]
    except OSError:
        return []
    found = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if not controllers:  # version 2: one tree for all
            found += _upwards(root, path)
        elif "cpu" in controllers.split(","):
            found += [folder for name in (controllers, "cpu") for folder in _upwards(root / name, path)]
    return found


def _upwards(root: Path, path: str) -> list[Path]:
    """The folder of a group and of all groups that it is in. Inside a container its own may be the root."""
    inside = [part for part in path.split("/") if part not in ("", "..")]
    return [root.joinpath(*inside[:n]) for n in range(len(inside), -1, -1)]


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


@functools.cache
def memory_bytes() -> int:
    """The memory of the machine; where it cannot be asked, more than any has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62
