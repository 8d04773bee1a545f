"""What runs kernels: the few things that CUDA, OpenCL and their like have in common. One file or folder for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.runtime.call import PlainCall

Array = np.ndarray[Any, np.dtype[Any]]
Memory = Any  # of the device: whatever the driver has for it
At = tuple[Memory, int]  # a place in it, in bytes


class Module(Protocol):
    """Loaded kernels."""

    def start(self, number: int, arguments: Sequence[At]) -> None:
        """Starts one of the launches; it waits for those before it, the caller does not."""


class Driver(Protocol):
    """One device. What is started on it runs in order; `finish` waits for all of it. Errors are `UserError`s."""

    name: str

    def load(self, launches: Launches) -> Module:
        """Kernels, compiled for the device where they are not yet."""

    def allocate(self, size: int) -> Memory:
        """Memory that lives as long as what is returned."""

    def write(self, to: At, array: Array) -> None:
        """A contiguous array to the device. It may be changed when this returns."""

    def read(self, array: Array, source: At) -> None:
        """Fills a contiguous array; waits for what was started before."""

    def copy(self, to: At, source: At, size: int) -> None:
        """From one place to another of the device."""

    def fill(self, memory: Memory, size: int, value: int) -> None:
        """Sets every byte."""

    def finish(self) -> None:
        """Waits until nothing is running."""

    def mark(self) -> Mark:
        """A point in time on the device, behind everything started before it."""

    def clocks(self) -> str:
        """What the device says of its clocks just now, or at least of the highest that they may be; for people."""

    def is_aligned(self, at: At) -> bool:
        """Whether kernels may be given the place: several elements are loaded at once where that is what they were promised."""

    def calls(self, network: Any) -> PlainCall | None:
        """What makes calls with arrays that are in the device's memory already; None: there are no such."""


class Mark(Protocol):
    def since(self, earlier: Any) -> float:
        """Seconds between two marks, when both are reached; waits for that."""


def at_most(clock: float) -> str:
    """The note of a device that tells its highest clock, in cycles a second, and not what it is just now."""
    return f"clock at most {clock / 1e6:.0f} MHz"
