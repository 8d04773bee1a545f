"""AMD's HIP without a GPU: the functions of its library, on those of the CUDA driver that is the PTX interpreter.

There is nothing here that runs AMD's instructions. What is loaded has to be a linked code object with the kernels' descriptors in
it; what is run is PTX of the same kernels, which the test gives (`ptx`). So everything but the instructions is as with a device.
"""

from __future__ import annotations

import struct
import weakref
from typing import Any

from tests.backends.gpu.fake_cuda import FakeCuda
from tests.backends.gpu.ptx.parse import parse

#: an MI300X, as HIP tells it
MI300X = {5: 2100000, 56: 1024, 57: 2048, 63: 304, 74: 65536, 87: 64, 10002: 65536}
GFX942 = 0x4C  # ELF's flags of the architecture

#: which of the other driver's functions does the same
SAME = {
    "hipInit": "cuInit", "hipRuntimeGetVersion": "cuDriverGetVersion", "hipGetDeviceCount": "cuDeviceGetCount",
    "hipDeviceGetName": "cuDeviceGetName", "hipDeviceGetAttribute": "cuDeviceGetAttribute", "hipModuleUnload": "cuModuleUnload",
    "hipDeviceGetPCIBusId": "cuDeviceGetPCIBusId",
    "hipModuleGetFunction": "cuModuleGetFunction", "hipFuncGetAttribute": "cuFuncGetAttribute",
    "hipModuleLaunchKernel": "cuLaunchKernel", "hipMalloc": "cuMemAlloc_v2", "hipFree": "cuMemFree_v2",
    "hipMemcpyHtoDAsync": "cuMemcpyHtoDAsync_v2", "hipMemcpyDtoHAsync": "cuMemcpyDtoHAsync_v2",
    "hipMemcpyDtoDAsync": "cuMemcpyDtoDAsync_v2", "hipMemsetD8Async": "cuMemsetD8Async",
    "hipStreamCreateWithFlags": "cuStreamCreate", "hipStreamQuery": "cuStreamQuery", "hipEventCreateWithFlags": "cuEventCreate",
    "hipEventRecord": "cuEventRecord", "hipEventQuery": "cuEventQuery", "hipEventElapsedTime": "cuEventElapsedTime",
    "hipEventDestroy": "cuEventDestroy_v2",
}  # fmt: skip
OWN = ("hipGetErrorName", "hipSetDevice", "hipModuleLoadDataEx", "hipGetDevicePropertiesR0600")


class FakeHip(FakeCuda):
    """See the module's text."""

    def __init__(self, ptx: str = "", devices: int = 1) -> None:
        super().__init__({**MI300X, 1: 1024}, b"AMD Instinct MI300X", devices)
        self.version, self.ptx, self.machine = 60_300_000, ptx, GFX942
        self.architecture = b"gfx942:sramecc+:xnack-"
        self.chosen: int | None = None
        self.images: dict[int, Any] = {}  # of modules: they are read until these are unloaded

    def __getattribute__(self, function: str) -> Any:
        if not function.startswith("hip"):
            return super().__getattribute__(function)

        def call(*arguments: Any) -> Any:
            if function == "hipGetErrorName":
                return b"hipErrorOfTomorrow" if arguments[0] == 12345 else b"hipErrorUnknown"
            if function in self.faults:
                self.called.append(function)
                return self.faults[function]
            if function in SAME:
                return getattr(self, SAME[function])(*arguments)
            self.called.append(function)
            return self.failed or getattr(self, "own_" + function)(*arguments)

        return call

    def own_hipSetDevice(self, number: int) -> int:
        self.chosen = number
        return 0 if 0 <= number < self.devices else 101

    def own_hipGetDevicePropertiesR0600(self, to: Any, number: int) -> int:
        to[:19], to[1160 : 1160 + len(self.architecture)] = self.name, self.architecture
        return 0 if 0 <= number < self.devices else 101

    def own_hipModuleLoadDataEx(self, to: Any, image: Any, count: int, options: Any, values: Any) -> int:
        found = image.raw
        if found[:4] != b"\x7fELF" or struct.unpack_from("<HH", found, 16) != (3, 224) or count:  # linked, for AMD's GPUs
            return 200
        if struct.unpack_from("<I", found, 48)[0] & 0xFF != self.machine:
            return 209
        kernels = {name: kernel for name, kernel in parse(self.ptx).items() if f"{name}.kd\0".encode() in found}
        to._obj.value = self._new()
        self.modules[to._obj.value], self.images[to._obj.value] = kernels, weakref.ref(image)
        return 0

    def cuLaunchKernel(self, function: int, *rest: Any) -> int:
        return 719 if any(self.images[n]() is None for n in self.modules) else super().cuLaunchKernel(function, *rest)


class FakeComgr:
    """AMD's library that links, as far as it is used: it makes an object a linked one by saying so in its head."""

    def __init__(self, problem: str = "", faults: tuple[str, ...] = ()) -> None:
        self.problem, self.faults = problem, faults
        self.alive: dict[int, Any] = {}
        self.isa = b""
        self._next = 10

    def __getattr__(self, function: str) -> Any:
        work = type(self).__dict__.get("do_" + function.removeprefix("amd_comgr_"))
        if work is None:
            raise AttributeError(function)
        return lambda *arguments: 1 if function in self.faults else work(self, *arguments)

    def _new(self, to: Any, value: Any) -> int:
        self._next += 1
        self.alive[self._next] = value
        to._obj.value = self._next
        return 0

    def do_create_data(self, kind: int, to: Any) -> int:
        return self._new(to, [kind, b""])

    def do_set_data(self, data: int, size: int, code: bytes) -> int:
        self.alive[data][1] = code[:size]
        return 0

    def do_set_data_name(self, data: int, name: bytes) -> int:
        return 0 if data in self.alive and name else 2

    def do_create_data_set(self, to: Any) -> int:
        return self._new(to, [])

    def do_data_set_add(self, into: int, data: int) -> int:
        self.alive[into].append(self.alive[data])
        return 0

    def do_create_action_info(self, to: Any) -> int:
        return self._new(to, {})

    def do_action_info_set_isa_name(self, info: int, name: bytes) -> int:
        self.isa = name
        return 0 if info in self.alive else 2

    def do_action_info_set_logging(self, info: int, on: bool) -> int:
        return 0

    def do_do_action(self, action: int, info: int, given: int, made: int) -> int:
        ((kind, code),) = self.alive[given]
        if action != 9 or kind != 7 or info not in self.alive:
            return 2
        if self.problem:
            self.alive[made].append([5, self.problem.encode()])
            return 1
        self.alive[made].append([8, code[:16] + struct.pack("<H", 3) + code[18:]])
        return 0

    def do_action_data_get_data(self, made: int, kind: int, number: int, to: Any) -> int:
        found = [one for one in self.alive[made] if one[0] == kind]
        return self._new(to, found[number]) if number < len(found) else 2

    def do_get_data(self, data: int, size: Any, to: Any) -> int:
        code = self.alive[data][1]
        size._obj.value = len(code)
        if to is not None:
            to.raw = code
        return 0

    def _end(self, handle: int) -> int:
        del self.alive[handle]
        return 0

    do_release_data = do_destroy_data_set = do_destroy_action_info = _end
