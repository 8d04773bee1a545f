"""A report that follows a running tuning: made again whenever the record file has grown, until someone ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_REST = 5.0  # times as long as it took to make, at least: the tuning wants the machine for itself


def watch(
    file: Path,
    make: Callable[[], None],
    seconds: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
    going_on: Callable[[], bool] = lambda: True,
) -> None:
    """Calls `make` now and whenever `file` has changed, looking every so many `seconds`, or less often where
    making takes long. `KeyboardInterrupt` passes through."""
    seen: object = None
    while going_on():
        state, began = _state(file), now()
        if state != seen:
            make()
            seen = state
        sleep(max(seconds, _REST * (now() - began)))


def _state(file: Path) -> tuple[tuple[int, int], ...]:
    """Sizes and times of the file and of its write-ahead log, where fresh records are first."""
    found = []
    for path in (file, file.with_name(f"{file.name}-wal")):
        try:
            facts = path.stat()
        except OSError:
            continue
        found.append((facts.st_size, facts.st_mtime_ns))
    return tuple(found)
