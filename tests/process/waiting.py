"""Waiting for other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def wait(what: str, condition: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s: {what}"
        time.sleep(0.02)


def alive(process: int) -> bool:
    """Whether it exists, and is no zombie that nobody has collected."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
