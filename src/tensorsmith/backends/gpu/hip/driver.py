"""The HIP device that is here."""

from __future__ import annotations

import functools

from tensorsmith.backends.gpu.hip.interface import HIP
from tensorsmith.backends.gpu.library import device
from tensorsmith.backends.gpu.library.api import opened
from tensorsmith.backends.gpu.library.device import LibraryDriver
from tensorsmith.backends.gpu.target import GpuTarget


@functools.cache
def driver(number: int = 0) -> LibraryDriver:
    """The driver of a device of this process. Raises `UserError` where there is none."""
    return LibraryDriver(opened(HIP), number)


def detected() -> GpuTarget:
    """The first HIP device here as a target."""
    return driver().target


def why_not(target: GpuTarget) -> str | None:
    """What is missing here to run code for an AMD target: it runs on its own architecture alone."""
    return device.why_not(target, lambda: driver(), lambda code, here: code == here)
