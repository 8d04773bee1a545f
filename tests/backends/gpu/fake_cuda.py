"""A CUDA driver without a GPU: the functions of the library, on the PTX interpreter.

Everything that the real one gives through pointers this one does too. Its clock is the number of instructions that kernels ran, so
times are the same every time. Faults are put in by name: `fake.faults["cuMemAlloc_v2"] = 2`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from tests.backends.gpu.ptx.machine import run
from tests.backends.gpu.ptx.memory import Memory
from tests.backends.gpu.ptx.parse import Kernel, PtxError, parse

#: an A100, as its driver tells it
A100 = {
    1: 1024, 8: 49152, 10: 32, 13: 1410000, 16: 108, 36: 1215000, 37: 5120, 38: 40 << 20, 39: 2048, 75: 8, 76: 0, 81: 164 << 10,
    82: 65536, 106: 32, 111: 1024,
}  # fmt: skip
NEWEST_PTX = (8, 0)  # that the driver's compiler takes
SECONDS_PER_INSTRUCTION = 1e-9


class FakeCuda:
    """See the module's text. Handles are numbers; those of a kind that is not there are noticed."""

    def __init__(self, attributes: dict[int, int] | None = None, name: bytes = b"NVIDIA A100-SXM4-40GB", devices: int = 1) -> None:
        self.attributes, self.name, self.devices = A100 if attributes is None else attributes, name, devices
        self.version = 12000
        self.memory = Memory(1 << 22)
        self.faults: dict[str, int] = {}
        self.called: list[str] = []
        self.modules: dict[int, dict[str, Kernel]] = {}
        self.functions: dict[int, Kernel] = {}
        self.streams: set[int] = set()
        self.events: dict[int, float | None] = {}
        self.clock = 0.0
        self.initialised = False
        self.failed = 0  # a failure of a kernel stays
        self.steps: int | None = None  # after which a kernel is taken for one that never ends
        self.stuck = False
        self._next = 1000

    def __getattribute__(self, function: str) -> Any:
        """Calls are noted; a fault that was put in comes first, and everything fails after a kernel has."""
        found = super().__getattribute__(function)
        if not function.startswith("cu"):
            return found

        def call(*arguments: Any) -> int:
            self.called.append(function)
            if function in self.faults:
                return self.faults[function]
            if function not in ("cuInit", "cuDriverGetVersion", "cuGetErrorName") and not self.initialised:
                return 3
            if self.failed and function not in ("cuGetErrorName", "cuMemFree_v2", "cuModuleUnload", "cuEventDestroy_v2"):
                return self.failed
            return int(found(*arguments))

        return call

    def _new(self) -> int:
        self._next += 8
        return self._next

    # -- the driver and its devices ------------------------------------------------------------------------------------

    def cuInit(self, flags: int) -> int:
        if not self.devices:
            return 100
        self.initialised = True
        return 0

    def cuDriverGetVersion(self, to: Any) -> int:
        to._obj.value = self.version
        return 0

    def cuGetErrorName(self, code: int, to: Any) -> int:
        if code != 12345:
            return 1
        to._obj.value = b"CUDA_ERROR_OF_TOMORROW"
        return 0

    def cuDeviceGetCount(self, to: Any) -> int:
        to._obj.value = self.devices
        return 0

    def cuDeviceGetName(self, to: Any, size: int, device: int) -> int:
        to.value = self.name[: size - 1]
        return 0 if 0 <= device < self.devices else 101

    def cuDeviceGetAttribute(self, to: Any, attribute: int, device: int) -> int:
        if attribute not in self.attributes:
            return 1
        to._obj.value = self.attributes[attribute]
        return 0

    def cuDeviceGetPCIBusId(self, to: Any, size: int, device: int) -> int:
        to.value = b"0000:C1:00.0"[: size - 1]
        return 0 if 0 <= device < self.devices else 101

    def cuDevicePrimaryCtxRetain(self, to: Any, device: int) -> int:
        to._obj.value = self._new()
        return 0

    def cuCtxSetCurrent(self, context: int) -> int:
        return 0 if context else 201

    # -- memory --------------------------------------------------------------------------------------------------------

    def cuMemAlloc_v2(self, to: Any, size: int) -> int:
        try:
            to._obj.value = self.memory.room(size)
        except MemoryError:
            return 2
        return 0

    def cuMemFree_v2(self, address: int) -> int:
        if address not in self.memory.sizes:
            return 1
        self.memory.free(address)
        return 0

    def _fits(self, address: int, size: int) -> bool:
        return bool(self.memory.there[address : address + size].all()) and 0 < address < len(self.memory.data)

    def cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> int:
        if not self._fits(to, size) or stream not in self.streams:
            return 1
        self.memory.data[to : to + size] = np.frombuffer(ctypes.string_at(source, size), np.uint8)
        return 0

    def cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> int:
        if not self._fits(source, size) or stream not in self.streams:
            return 1
        ctypes.memmove(to, self.memory.data[source : source + size].tobytes(), size)
        return 0

    def cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> int:
        if not self._fits(source, size) or not self._fits(to, size):
            return 1
        self.memory.data[to : to + size] = self.memory.data[source : source + size]
        return 0

    def cuMemsetD8Async(self, to: int, value: int, size: int, stream: int) -> int:
        if not self._fits(to, size):
            return 1
        self.memory.data[to : to + size] = value
        return 0

    # -- kernels -------------------------------------------------------------------------------------------------------

    def cuModuleLoadDataEx(self, to: Any, image: Any, count: int, options: Any, values: Any) -> int:
        text = image.value.decode()
        version = next((line.split()[1] for line in text.splitlines() if line.startswith(".version")), "0.0")
        if tuple(map(int, version.split("."))) > NEWEST_PTX:
            return 222
        try:
            kernels = parse(text)
        except PtxError as problem:
            given = dict(zip(options, values))
            log = f"ptxas application ptx input, line 1; fatal   : {problem}\n".encode()[: given[6] - 1] + b"\0"
            ctypes.memmove(given[5], log, len(log))
            return 218
        to._obj.value = self._new()
        self.modules[to._obj.value] = kernels
        return 0

    def cuModuleUnload(self, module: int) -> int:
        return 0 if self.modules.pop(module, None) is not None else 1

    def cuModuleGetFunction(self, to: Any, module: int, name: bytes) -> int:
        kernel = self.modules[module].get(name.decode())
        if kernel is None:
            return 500
        to._obj.value = self._new()
        self.functions[to._obj.value] = kernel
        return 0

    def cuFuncGetAttribute(self, to: Any, attribute: int, function: int) -> int:
        to._obj.value = {4: 40, 3: 0}[attribute]
        return 0 if function in self.functions else 1

    def cuLaunchKernel(self, function: int, *rest: Any) -> int:
        gx, gy, gz, bx, by, bz, shared, stream, parameters, extra = rest
        kernel = self.functions[function]
        if extra is not None or stream not in self.streams or (gy, gz, by, bz, shared) != (1, 1, 1, 1, 0) or not gx:
            return 1
        if bx > self.attributes[1]:
            return 701
        arguments = [ctypes.cast(parameters[n], ctypes.POINTER(ctypes.c_uint64))[0] for n in range(len(kernel.parameters))]
        try:
            counts = run(kernel, self.memory, gx, bx, arguments, steps=self.steps)
        except PtxError as problem:
            if "has not ended" in str(problem):
                self.stuck = True
                return 0
            self.failed = 716 if "misaligned" in str(problem) else 700 if "out of bounds" in str(problem) else 719
            return 0  # it is noticed later
        self.clock += SECONDS_PER_INSTRUCTION * sum(counts.values())
        return 0

    # -- streams and events --------------------------------------------------------------------------------------------

    def cuStreamCreate(self, to: Any, flags: int) -> int:
        to._obj.value = self._new()
        self.streams.add(to._obj.value)
        return 0

    def cuStreamQuery(self, stream: int) -> int:
        return 600 if self.stuck else 0

    def cuEventCreate(self, to: Any, flags: int) -> int:
        to._obj.value = self._new()
        self.events[to._obj.value] = None
        return 0

    def cuEventRecord(self, event: int, stream: int) -> int:
        self.events[event] = self.clock
        return 0

    def cuEventQuery(self, event: int) -> int:
        return 600 if self.stuck else 0

    def cuEventElapsedTime(self, to: Any, first: int, second: int) -> int:
        a, b = self.events[first], self.events[second]
        if a is None or b is None:
            return 1
        to._obj.value = (b - a) * 1e3
        return 0

    def cuEventDestroy_v2(self, event: int) -> int:
        return 0 if event in self.events and self.events.pop(event) is not None else 1
