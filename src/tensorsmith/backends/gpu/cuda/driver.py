"""One CUDA device: memory, kernels, a stream, and marks in it. What `running.py` asks of a driver."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.cuda import facts
from tensorsmith.backends.gpu.cuda.api import Api, opened
from tensorsmith.backends.gpu.cuda.errors import NOT_READY, SUCCESS, CudaError
from tensorsmith.backends.gpu.launch import ARGUMENT_ALIGNMENT, Launch, Launches
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import UserError

Array = np.ndarray[Any, np.dtype[Any]]

PATIENCE = 300.0  # seconds that a call waits for the device: no kernel of ours takes a hundredth of it
_NON_BLOCKING = 1  # a stream that does not wait for the default one
_ERROR_LOG, _ERROR_LOG_SIZE, _LOG_BYTES = 5, 6, 4096  # cuda.h, `CUjit_option`
_REGISTERS, _LOCAL_BYTES = 4, 3  # cuda.h, `CUfunction_attribute`


class CudaMemory:
    """A piece of device memory, given back when nobody has it any more. `owner` keeps memory of others alive."""

    def __init__(self, address: int, size: int, owner: object = None) -> None:
        self.address, self.size, self.owner = address, size, owner

    def __repr__(self) -> str:
        return f"CudaMemory({self.size} bytes at {self.address:#x})"


At = tuple[CudaMemory, int]


class Cuda:
    """A device, by its number, and the stream in which everything that is started on it runs in order."""

    def __init__(self, api: Api, number: int = 0, patience: float = PATIENCE, now: Callable[[], float] = time.monotonic) -> None:
        self.api, self.number, self.patience, self._now = api, number, patience, now
        count = api.number("cuDeviceGetCount", what="counting CUDA's devices")
        if not 0 <= number < count:
            raise UserError(f"there is no CUDA device {number}; there are {count}, from 0 on")
        self.name = facts.device_name(api, number)
        self._context = api.handle("cuDevicePrimaryCtxRetain", number, what=f"opening CUDA device {self.name}")
        self._current = threading.local()
        self._enter()
        self.stream = api.handle("cuStreamCreate", _NON_BLOCKING, what=f"CUDA device {self.name}: a stream")

    @functools.cached_property
    def target(self) -> GpuTarget:
        return facts.target(self.api, self.number)

    def _enter(self) -> None:
        """Makes this device the one that calls of this Python thread are about."""
        if getattr(self._current, "set", False):
            return
        self.api.call("cuCtxSetCurrent", self._context, what=f"CUDA device {self.name}: its context")
        self._current.set = True

    def call(self, what: str, function: str, *arguments: Any) -> None:
        self._enter()
        self.api.call(function, *arguments, what=f"CUDA device {self.name}: {what}")

    # -- memory --------------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> CudaMemory:
        found = ctypes.c_uint64()
        self.call(f"{size:,} bytes of memory", "cuMemAlloc_v2", ctypes.byref(found), max(16, size))
        memory = CudaMemory(found.value, size)
        weakref.finalize(memory, self._free, found.value)
        return memory

    def _free(self, address: int) -> None:
        """Given back when Python gets to it; a device that has failed, or a process that ends, has nothing to give back."""
        self._enter()
        self.api.result("cuMemFree_v2", address)

    def write(self, to: At, array: Array) -> None:
        if array.nbytes:
            self.call("a copy to it", "cuMemcpyHtoDAsync_v2", _address(to), array.ctypes.data, array.nbytes, self.stream)
            self.finish()  # the caller may change the array now

    def read(self, array: Array, source: At) -> None:
        if array.nbytes:
            self.call("a copy from it", "cuMemcpyDtoHAsync_v2", array.ctypes.data, _address(source), array.nbytes, self.stream)
        self.finish()

    def copy(self, to: At, source: At, size: int) -> None:
        if size:
            self.call("a copy on it", "cuMemcpyDtoDAsync_v2", _address(to), _address(source), size, self.stream)

    def fill(self, memory: CudaMemory, size: int, value: int) -> None:
        if size:
            self.call("filling memory", "cuMemsetD8Async", memory.address, value, size, self.stream)

    # -- kernels -------------------------------------------------------------------------------------------------------

    def load(self, launches: Launches) -> CudaModule:
        return CudaModule(self, launches)

    def finish(self) -> None:
        """Waits until nothing is running, but not for ever."""
        self.wait("cuStreamQuery", self.stream, "a kernel")

    def wait(self, query: str, handle: int, what: str) -> None:
        """Asks until it is done: often at first, then a thousand times a second, so that a kernel which never ends is noticed."""
        self._enter()
        start, asked = self._now(), 0
        while True:
            code = self.api.result(query, handle)
            if code == SUCCESS:
                return
            if code != NOT_READY:
                raise CudaError(f"CUDA device {self.name}: {what}", code)
            if self._now() - start > self.patience:
                raise UserError(
                    f"CUDA device {self.name}: {what} has not ended after {self.patience:g} seconds; end this process to stop it"
                )
            asked += 1
            if asked > 1000:
                time.sleep(1e-3)

    def mark(self) -> CudaMark:
        return CudaMark(self)

    def is_aligned(self, at: At) -> bool:
        return _address(at) % ARGUMENT_ALIGNMENT == 0

    def calls(self, network: Any) -> Any:
        from tensorsmith.backends.gpu.cuda.calls import DeviceCall  # which is made of networks, which are made of drivers

        return DeviceCall(network, self)


class CudaModule:
    """The kernels of one program, compiled by the driver."""

    def __init__(self, driver: Cuda, launches: Launches) -> None:
        if launches.language != "ptx":
            raise UserError(f"CUDA loads PTX, and this code is {launches.language}; compile it for a CUDA target, such as a100")
        self.driver, self.launches = driver, launches.launches
        self._handle = self._compiled(launches.text)
        weakref.finalize(self, driver.api.result, "cuModuleUnload", self._handle)
        self._functions = [self._function(one) for one in launches.launches]

    def _compiled(self, text: str) -> int:
        """What the driver's compiler says of an error is in a buffer of ours."""
        log, found = ctypes.create_string_buffer(_LOG_BYTES), ctypes.c_void_p()
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        image = ctypes.create_string_buffer(text.encode())
        self.driver._enter()
        code = self.driver.api.result("cuModuleLoadDataEx", ctypes.byref(found), image, 2, options, values)
        if code != SUCCESS:
            lines = [line.strip() for line in log.value.decode(errors="replace").splitlines() if line.strip()]
            raise CudaError(f"CUDA device {self.driver.name}: compiling", code, more=lines[0] if lines else "")
        return found.value or 0

    def _function(self, one: Launch) -> int:
        name = one.kernel.encode()
        return self.driver.api.handle("cuModuleGetFunction", self._handle, name, what=f"finding kernel {one.kernel}")

    def start(self, number: int, arguments: Sequence[At]) -> None:
        one, d = self.launches[number], self.driver
        if not one.grid:
            return
        words = (ctypes.c_uint64 * max(1, len(arguments)))(*map(_address, arguments))
        start = ctypes.addressof(words)
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(start + 8 * n for n in range(len(arguments))))
        shape = (one.grid, 1, 1, one.block, 1, 1, 0)  # shared memory is declared in the code
        d.call(f"kernel {one.kernel}", "cuLaunchKernel", self._functions[number], *shape, d.stream, pointers, None)

    def registers(self, number: int) -> int:
        """Registers of a thread of one of the kernels, as the driver compiled it."""
        self.driver._enter()
        return self.driver.api.number(
            "cuFuncGetAttribute", _REGISTERS, self._functions[number], what="asking for a kernel's registers"
        )

    def spilled_bytes(self, number: int) -> int:
        """Memory of a thread for what found no register."""
        self.driver._enter()
        return self.driver.api.number(
            "cuFuncGetAttribute", _LOCAL_BYTES, self._functions[number], what="asking for a kernel's memory"
        )


class CudaMark:
    """An event behind everything that was started before it."""

    def __init__(self, driver: Cuda) -> None:
        self.driver = driver
        driver._enter()
        self.event = driver.api.handle("cuEventCreate", 0, what=f"CUDA device {driver.name}: an event")
        weakref.finalize(self, driver.api.result, "cuEventDestroy_v2", self.event)
        driver.call("an event", "cuEventRecord", self.event, driver.stream)

    def since(self, earlier: CudaMark) -> float:
        """Seconds on the device's clock, when both are reached."""
        self.driver.wait("cuEventQuery", self.event, "a kernel")
        found = ctypes.c_float()
        self.driver.call("an event", "cuEventElapsedTime", ctypes.byref(found), earlier.event, self.event)
        return max(0.0, found.value) * 1e-3 if math.isfinite(found.value) else 0.0


def _address(at: At) -> int:
    memory, offset = at
    return memory.address + offset


@functools.cache
def driver(number: int = 0) -> Cuda:
    """The driver of a device of this process."""
    return Cuda(opened(), number)


def detected() -> GpuTarget:
    """The first CUDA device here as a target. Raises `UserError` where there is none."""
    return driver().target


def why_not(target: GpuTarget) -> str | None:
    """What is missing here to run code for a CUDA target: PTX runs on its architecture and on newer ones."""
    try:
        here = driver().target
    except UserError as problem:
        return f"was compiled for {target.name}, and {problem}"
    if _number(here.architecture) < _number(target.architecture):
        return f"was compiled for {target.name} ({target.architecture}), {here.name} is {here.architecture}"
    for fact in ("threads", "shared_bytes"):
        if getattr(target, fact) > getattr(here, fact):
            return (
                f"was compiled for {target.name}, which has {fact} {getattr(target, fact)}; {here.name} has {getattr(here, fact)}"
            )
    return None


def _number(architecture: str) -> int:
    digits = "".join(c for c in architecture if c.isdigit())
    return int(digits) if digits else 0
