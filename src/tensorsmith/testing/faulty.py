"""A station with faults, for nodes of a real Ray cluster. The file `TENSORSMITH_FAULTS` names has them by Ray's name of the node.

slow    all its times are so many times as long; also that of the calibration kernel
hang    the number of the lease in which it stops answering; once
"""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

from tensorsmith.measure.fleet.station import Station

FAULTS = "TENSORSMITH_FAULTS"  # the environment variable
STATION = "tensorsmith.testing.faulty:FaultyStation"  # as `RayNodes` takes it
CALIBRATION = 1e-5  # seconds: the nodes of a test share the cores of one machine, and real ones would differ by chance


class FaultyStation(Station):
    """Measures like any other, but for the faults of its node."""

    def __init__(self) -> None:
        super().__init__()
        self._node = importlib.import_module("ray").get_runtime_context().get_node_id()
        self._leases = 0

    def obey(self, m: dict[str, Any]) -> dict[str, Any]:
        faults = json.loads(Path(os.environ[FAULTS]).read_text()).get(self._node, {})
        if m["do"] == "measure" and m["jobs"]:
            self._leases += 1
            if self._leases == faults.get("hang") and self._first():
                time.sleep(3600)
        found = super().obey(m)
        slow = faults.get("slow", 1.0)
        if found.get("calibration") is not None:
            found["calibration"] = CALIBRATION * slow
        for trial in found.get("trials", ()):
            if trial["seconds"] is not None:
                trial["seconds"] *= slow
        return found

    def _first(self) -> bool:
        try:
            os.close(os.open(f"{os.environ[FAULTS]}.{self._node}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True
