"""The CUDA device that is here."""

from __future__ import annotations

import functools

from tensorsmith.backends.gpu.cuda.interface import CUDA
from tensorsmith.backends.gpu.library import device
from tensorsmith.backends.gpu.library.api import opened
from tensorsmith.backends.gpu.library.device import LibraryDriver
from tensorsmith.backends.gpu.target import GpuTarget


@functools.cache
def driver(number: int = 0) -> LibraryDriver:
    """The driver of a device of this process. Raises `UserError` where there is none."""
    return LibraryDriver(opened(CUDA), number)


def detected() -> GpuTarget:
    """The first CUDA device here as a target."""
    return driver().target


def why_not(target: GpuTarget) -> str | None:
    """What is missing here to run code for a CUDA target: PTX runs on its architecture and on newer ones."""
    return device.why_not(target, lambda: driver(), lambda code, here: _number(code) <= _number(here))


def _number(architecture: str) -> int:
    digits = "".join(c for c in architecture if c.isdigit())
    return int(digits) if digits else 0
