"""OpenCL, through pyopencl: any device that has a driver of its own, and PoCL, which is one on CPUs.

Buffers are not addresses here, and pieces of them begin only where devices allow it; so kernels get a buffer and an offset for each
argument (`printers/dialects.py`). Times are the profiling clock's of the device.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tensorsmith.backends.gpu import pocl
from tensorsmith.backends.gpu.detect import opencl_device
from tensorsmith.backends.gpu.driver import Array, At, Memory, at_most
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import UserError

T = TypeVar("T")


def why_not(target: GpuTarget) -> str | None:
    """What is missing here to run OpenCL code for a target."""
    try:
        device = opencl_device()
    except UserError as problem:
        return f"was compiled for {target.name}, and {problem}"
    for fact, here in (("threads", device.max_work_group_size), ("shared_bytes", device.local_mem_size)):
        if getattr(target, fact) > here:
            return f"was compiled for {target.name}, which has {fact} {getattr(target, fact)}; {device.name} has {here}"
    return None


@functools.cache
def driver() -> OpenCL:
    """The driver of this process's device."""
    return OpenCL(opencl_device())


class OpenCL:
    """One device and its queue."""

    def __init__(self, device: Any) -> None:
        import pyopencl

        os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # drivers have caches of their own
        self.cl, self.name = pyopencl, str(device.name)
        pocl.name_cpu(device)
        self.context = pyopencl.Context([device])
        self.queue = pyopencl.CommandQueue(self.context, properties=pyopencl.command_queue_properties.PROFILING_ENABLE)

    def load(self, launches: Launches) -> OpenCLModule:
        return OpenCLModule(self, launches)

    def allocate(self, size: int) -> Memory:
        flags = self.cl.mem_flags.READ_WRITE
        return self.tried(f"{size:,} bytes of memory", lambda: self.cl.Buffer(self.context, flags, max(16, size)))

    def write(self, to: At, array: Array) -> None:
        if array.nbytes:
            self.tried("a copy to it", lambda: self.cl.enqueue_copy(self.queue, to[0], array, dst_offset=to[1], is_blocking=True))

    def read(self, array: Array, source: At) -> None:
        if array.nbytes:
            self.tried(
                "a copy from it", lambda: self.cl.enqueue_copy(self.queue, array, source[0], src_offset=source[1], is_blocking=True)
            )

    def copy(self, to: At, source: At, size: int) -> None:
        if size:
            self.tried(
                "a copy on it",
                lambda: self.cl.enqueue_copy(self.queue, to[0], source[0], dst_offset=to[1], src_offset=source[1], byte_count=size),
            )

    def fill(self, memory: Memory, size: int, value: int) -> None:
        if size:
            self.cl.enqueue_fill_buffer(self.queue, memory, np.uint8(value), 0, size)

    def finish(self) -> None:
        self.tried("a kernel", self.queue.finish)

    def mark(self) -> OpenCLMark:
        return OpenCLMark(self, self.cl.enqueue_marker(self.queue))

    def clocks(self) -> str:
        """OpenCL knows no more."""
        return at_most(1e6 * self.context.devices[0].max_clock_frequency)

    def calls(self, network: Any) -> None:
        return None

    def is_aligned(self, at: At) -> bool:
        return True  # the language's loads of vectors want no more than elements do

    def tried(self, what: str, do: Callable[[], T]) -> T:
        """What `do` gives; a driver's error in one line."""
        try:
            return do()
        except self.cl.Error as problem:
            raise UserError(f"OpenCL device {self.name}: {what} failed: {_reason(problem)}") from problem


def _reason(problem: Exception) -> str:
    """The line of a driver's message that says most: the first error of its compiler, else the first line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("error:") or ": error:" in line), lines[0] if lines else repr(problem))


@dataclass(frozen=True)
class OpenCLMark:
    driver: OpenCL
    event: Any

    def since(self, earlier: OpenCLMark) -> float:
        self.event.wait()
        return float(self.event.profile.end - earlier.event.profile.end) * 1e-9


class OpenCLModule:
    """Kernels of one program; each is kept, because every access to a program's makes a new one."""

    def __init__(self, driver: OpenCL, launches: Launches) -> None:
        self.driver, self.launches = driver, launches.launches
        program = driver.tried("compiling", lambda: driver.cl.Program(driver.context, launches.text).build())
        self.kernels = [driver.cl.Kernel(program, one.kernel) for one in launches.launches]

    def start(self, number: int, arguments: Sequence[At]) -> None:
        one, kernel, d = self.launches[number], self.kernels[number], self.driver
        if not one.grid:
            return
        kernel.set_args(*[x for memory, offset in arguments for x in (memory, np.uint64(offset))])
        size = (one.grid * one.block,)
        d.tried(f"kernel {one.kernel}", lambda: d.cl.enqueue_nd_range_kernel(d.queue, kernel, size, (one.block,)))
