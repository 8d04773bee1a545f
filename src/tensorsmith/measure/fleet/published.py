"""What runs tell those who look on: a file for each run that measures elsewhere, which `tensorsmith fleet status` reads."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tensorsmith.measure.runner import NodeStatus

if TYPE_CHECKING:
    from tensorsmith.measure.fleet.runner import FleetRunner

_EVERY = 1.0  # seconds between two


@dataclass(frozen=True)
class FleetStatus:
    """A run that measures elsewhere, as it was some seconds ago."""

    runner: str
    process: int
    age: float  # seconds
    open: int  # candidates without a result
    queued: int  # of them, those that no node has
    nodes: tuple[NodeStatus, ...]


def folder() -> Path:
    """Where the files are: one folder for each user."""
    return Path(tempfile.gettempdir()) / f"tensorsmith-fleet-{_user()}"


class Published:
    """Writes the file of a runner now and then; it is gone with the runner. A file that cannot be written is no trouble."""

    def __init__(self, name: str) -> None:
        self._name, self._last = name, 0.0
        self._path: Path | None = None

    def __call__(self, runner: FleetRunner) -> None:
        now = time.monotonic()
        if not runner.closed and now - self._last < _EVERY:
            return
        self._last = now
        with contextlib.suppress(OSError):
            if runner.closed:
                if self._path is not None:
                    self._path.unlink()
                return
            self._write(runner)

    def _write(self, runner: FleetRunner) -> None:
        place = folder()
        place.mkdir(mode=0o700, exist_ok=True)
        if not _ours(place):
            return
        self._path = place / f"{os.getpid()}-{id(self):x}.json"
        form = {
            "runner": self._name,
            "process": os.getpid(),
            "written": time.time(),
            "open": runner.dispatch.open,
            "queued": runner.dispatch.queued,
            "nodes": [dataclasses.asdict(node) for node in runner.nodes()],
        }
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(form))
        new.replace(self._path)


def _ours(place: Path) -> bool:
    """Whether nobody but this user could have made or changed a folder: in the temporary directory anyone may make one of that
    name, or a link to somewhere else."""
    try:
        found = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == _user() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def published() -> list[FleetStatus]:
    """The runs of this user on this machine. Files that dead processes have left are removed."""
    found: list[FleetStatus] = []
    place = folder()
    if not _ours(place):
        return found
    for path in sorted(place.glob("*.json")):
        if not stat.S_ISREG(path.lstat().st_mode):
            continue
        try:
            form = json.loads(path.read_text())
            process = int(form["process"])
            os.kill(process, 0)
            nodes = tuple(NodeStatus(**node) for node in form["nodes"])
            age = max(0.0, time.time() - form["written"])
            found.append(FleetStatus(form["runner"], process, age, form["open"], form["queued"], nodes))
        except ProcessLookupError:
            with contextlib.suppress(OSError):
                path.unlink()
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
