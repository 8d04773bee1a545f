"""How the machine is that a node runs on, where the system says: its load and its temperature."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PROC, _THERMAL = Path("/proc"), Path("/sys/class/thermal")


@dataclass(frozen=True)
class Health:
    """What the system says; None where it does not."""

    load: float | None = None  # programs that wanted its cores, over the last minute
    celsius: float | None = None  # of its warmest part


def health(proc: Path = _PROC, thermal: Path = _THERMAL) -> Health:
    try:
        load: float | None = float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        load = None
    warmest: float | None = None
    for file in thermal.glob("thermal_zone*/temp"):
        try:
            celsius = int(file.read_text()) / 1000
        except (OSError, ValueError):
            continue
        if 0 < celsius < 150:  # zones that are not wired say anything
            warmest = celsius if warmest is None else max(warmest, celsius)
    return Health(load, warmest)
