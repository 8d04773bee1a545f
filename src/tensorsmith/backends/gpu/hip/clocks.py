"""The clocks of an AMD GPU just now, by the files of Linux's driver for it."""

from __future__ import annotations

import re
from pathlib import Path

_DEVICES = Path("/sys/bus/pci/devices")
_FILES = {"compute units": "pp_dpm_sclk", "memory": "pp_dpm_mclk"}
_CHOSEN = re.compile(r"^\d+: *(\d+) *Mhz *\*", re.MULTILINE | re.IGNORECASE)  # the steps that there are; a star at that of now


def clocks(place: str, devices: Path = _DEVICES) -> str:
    """Those of the device at a place of the bus."""
    said = []
    for what, file in _FILES.items():
        try:
            found = _CHOSEN.search((devices / place / file).read_text())
        except OSError:
            continue
        if found:
            said.append(f"{what} {found[1]} MHz")
    return ", ".join(said)
