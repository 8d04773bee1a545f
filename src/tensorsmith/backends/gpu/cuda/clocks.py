"""The clocks of an NVIDIA GPU just now, by NVML, the library of NVIDIA's driver that `nvidia-smi` asks too."""

from __future__ import annotations

import ctypes
import functools
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_void_p
from typing import Any

_SM, _MEMORY = 1, 2  # nvml.h, `nvmlClockType_t`
_GPU = 0  # `nvmlTemperatureSensors_t`

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "nvmlInit_v2": (),
    "nvmlDeviceGetHandleByPciBusId_v2": (c_char_p, POINTER(c_void_p)),
    "nvmlDeviceGetClockInfo": (c_void_p, c_int, POINTER(c_uint)),
    "nvmlDeviceGetTemperature": (c_void_p, c_int, POINTER(c_uint)),
}


@functools.cache
def library() -> Any:
    """NVML, started; None where it is not there."""
    try:
        found = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        for function, types in FUNCTIONS.items():
            entry = getattr(found, function)
            entry.argtypes, entry.restype = types, c_int
    except (OSError, AttributeError):
        return None
    return None if found.nvmlInit_v2() else found


def clocks(place: str) -> str:
    """Those of the device at a place of the bus, and its temperature."""
    nvml, device = library(), c_void_p()
    if nvml is None or nvml.nvmlDeviceGetHandleByPciBusId_v2(place.encode(), byref(device)):
        return ""
    asked = (
        ("SM {} MHz", nvml.nvmlDeviceGetClockInfo, _SM),
        ("memory {} MHz", nvml.nvmlDeviceGetClockInfo, _MEMORY),
        ("{} degrees", nvml.nvmlDeviceGetTemperature, _GPU),
    )
    said, number = [], c_uint()
    for text, function, which in asked:
        if function(device, which, byref(number)) == 0:  # a part of a device, as in virtual machines, does not tell all
            said.append(text.format(number.value))
    return ", ".join(said)
