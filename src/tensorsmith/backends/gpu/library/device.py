"""One device of such a library: memory, kernels, a stream, and marks in it. What `running.py` asks of a driver."""

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

from tensorsmith.backends.gpu.driver import at_most
from tensorsmith.backends.gpu.launch import ARGUMENT_ALIGNMENT, Launch, Launches
from tensorsmith.backends.gpu.library.api import Api
from tensorsmith.backends.gpu.library.errors import NOT_READY, SUCCESS
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import UserError

Array = np.ndarray[Any, np.dtype[Any]]

PATIENCE = 300.0  # seconds that a call waits for the device: no kernel of ours takes a hundredth of it
_NON_BLOCKING = 1  # a stream that does not wait for the default one
_ERROR_LOG, _ERROR_LOG_SIZE, _LOG_BYTES = 5, 6, 4096  # cuda.h, `CUjit_option`
_REGISTERS, _LOCAL_BYTES = 4, 3  # cuda.h, `CUfunction_attribute`; HIP has the same


class LibraryMemory:
    """A piece of device memory, given back when nobody has it any more. `owner` keeps memory of others alive."""

    def __init__(self, address: int, size: int, owner: object = None) -> None:
        self.address, self.size, self.owner = address, size, owner

    def __repr__(self) -> str:
        return f"LibraryMemory({self.size} bytes at {self.address:#x})"


At = tuple[LibraryMemory, int]


class LibraryDriver:
    """A device, by its number, and the stream in which everything that is started on it runs in order."""

    def __init__(self, api: Api, number: int = 0, patience: float = PATIENCE, now: Callable[[], float] = time.monotonic) -> None:
        self.api, self.number, self.patience, self._now = api, number, patience, now
        kind = api.interface.name
        count = api.number("DeviceGetCount", what=f"counting {kind}'s devices")
        if not 0 <= number < count:
            raise UserError(f"there is no {kind} device {number}; there are {count}, from 0 on")
        self.name = api.device_name(number)
        self.title = f"{kind} device {self.name}"
        self._making_current = api.interface.current(api, number)
        self._current = threading.local()
        self.enter()
        self.stream = api.handle("StreamCreate", _NON_BLOCKING, what=f"{self.title}: a stream")

    @functools.cached_property
    def target(self) -> GpuTarget:
        return self.api.interface.facts(self.api, self.number)

    def enter(self) -> None:
        """Makes this device the one that calls of this Python thread are about."""
        if getattr(self._current, "set", False):
            return
        function, argument = self._making_current
        self.api.call(function, argument, what=f"{self.title}: its context")
        self._current.set = True

    def call(self, what: str, function: str, *arguments: Any) -> None:
        self.enter()
        self.api.call(function, *arguments, what=f"{self.title}: {what}")

    # -- memory --------------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> LibraryMemory:
        found = ctypes.c_uint64()
        self.call(f"{size:,} bytes of memory", "MemAlloc", ctypes.byref(found), max(16, size))
        memory = LibraryMemory(found.value, size)
        weakref.finalize(memory, self._free, found.value)
        return memory

    def _free(self, address: int) -> None:
        """Given back when Python gets to it; a device that has failed, or a process that ends, has nothing to give back."""
        self.enter()
        self.api.result("MemFree", address)

    def write(self, to: At, array: Array) -> None:
        if array.nbytes:
            self.call("a copy to it", "MemcpyHtoDAsync", _address(to), array.ctypes.data, array.nbytes, self.stream)
            self.finish()  # the caller may change the array now

    def read(self, array: Array, source: At) -> None:
        if array.nbytes:
            self.call("a copy from it", "MemcpyDtoHAsync", array.ctypes.data, _address(source), array.nbytes, self.stream)
        self.finish()

    def copy(self, to: At, source: At, size: int) -> None:
        if size:
            self.call("a copy on it", "MemcpyDtoDAsync", _address(to), _address(source), size, self.stream)

    def fill(self, memory: LibraryMemory, size: int, value: int) -> None:
        if size:
            self.call("filling memory", "MemsetD8Async", memory.address, value, size, self.stream)

    # -- kernels -------------------------------------------------------------------------------------------------------

    def load(self, launches: Launches) -> LibraryModule:
        return LibraryModule(self, launches)

    def finish(self) -> None:
        """Waits until nothing is running, but not for ever."""
        self.wait("StreamQuery", self.stream, "a kernel")

    def wait(self, query: str, handle: int, what: str) -> None:
        """Asks until it is done: often at first, then a thousand times a second, so that a kernel which never ends is noticed."""
        self.enter()
        start, asked = self._now(), 0
        while True:
            code = self.api.result(query, handle)
            if code == SUCCESS:
                return
            if code != NOT_READY:
                raise self.api.error(f"{self.title}: {what}", code)
            if self._now() - start > self.patience:
                raise UserError(f"{self.title}: {what} has not ended after {self.patience:g} seconds; end this process to stop it")
            asked += 1
            if asked > 1000:
                time.sleep(1e-3)

    def mark(self) -> LibraryMark:
        return LibraryMark(self)

    def clocks(self) -> str:
        """Read by what belongs to the driver; where nothing can be, the highest that there is."""
        held = ctypes.create_string_buffer(32)
        if self.api.result("DeviceGetPCIBusId", held, len(held), self.number) != SUCCESS:
            return at_most(self.target.clock)
        return self.api.interface.clocks(held.value.decode(errors="replace").lower()) or at_most(self.target.clock)

    def is_aligned(self, at: At) -> bool:
        return _address(at) % ARGUMENT_ALIGNMENT == 0

    def calls(self, network: Any) -> Any:
        from tensorsmith.backends.gpu.library.calls import DeviceCall  # which is made of networks, which are made of drivers

        return DeviceCall(network, self)


class LibraryModule:
    """The kernels of one program, as the driver loaded or compiled them."""

    def __init__(self, driver: LibraryDriver, launches: Launches) -> None:
        kind = driver.api.interface
        if launches.language != kind.language:
            raise UserError(
                f"{kind.name} loads {kind.language}, and this code is {launches.language}; "
                f"compile it for a {kind.name} target, such as {kind.such_as}"
            )
        self.driver, self.launches = driver, launches.launches
        image = ctypes.create_string_buffer(kind.image(launches, driver.target))
        self._handle = self._loaded(image)
        weakref.finalize(self, _unload, driver.api, self._handle, image)
        self._functions = [self._function(one) for one in launches.launches]

    def _loaded(self, image: Any) -> int:
        """What a driver's compiler says of an error is in a buffer of ours."""
        api, log, found = self.driver.api, ctypes.create_string_buffer(_LOG_BYTES), ctypes.c_void_p()
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        count, doing = (2, "compiling") if api.interface.compiles else (0, "loading code")
        self.driver.enter()
        code = api.result("ModuleLoadDataEx", ctypes.byref(found), image, count, options, values)
        if code != SUCCESS:
            lines = [line.strip() for line in log.value.decode(errors="replace").splitlines() if line.strip()]
            raise api.error(f"{self.driver.title}: {doing}", code, more=lines[0] if lines else "")
        return found.value or 0

    def _function(self, one: Launch) -> int:
        name = one.kernel.encode()
        return self.driver.api.handle("ModuleGetFunction", self._handle, name, what=f"finding kernel {one.kernel}")

    def start(self, number: int, arguments: Sequence[At]) -> None:
        one, d = self.launches[number], self.driver
        if not one.grid:
            return
        words = (ctypes.c_uint64 * max(1, len(arguments)))(*map(_address, arguments))
        start = ctypes.addressof(words)
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(start + 8 * n for n in range(len(arguments))))
        shape = (one.grid, 1, 1, one.block, 1, 1, 0)  # shared memory is declared in the code
        d.call(f"kernel {one.kernel}", "LaunchKernel", self._functions[number], *shape, d.stream, pointers, None)

    def registers(self, number: int) -> int:
        """Registers of a thread of one of the kernels, as the driver compiled it."""
        self.driver.enter()
        return self.driver.api.number(
            "FuncGetAttribute", _REGISTERS, self._functions[number], what="asking for a kernel's registers"
        )

    def spilled_bytes(self, number: int) -> int:
        """Memory of a thread for what found no register."""
        self.driver.enter()
        return self.driver.api.number(
            "FuncGetAttribute", _LOCAL_BYTES, self._functions[number], what="asking for a kernel's memory"
        )


class LibraryMark:
    """An event behind everything that was started before it."""

    def __init__(self, driver: LibraryDriver) -> None:
        self.driver = driver
        driver.enter()
        self.event = driver.api.handle("EventCreate", 0, what=f"{driver.title}: an event")
        weakref.finalize(self, driver.api.result, "EventDestroy", self.event)
        driver.call("an event", "EventRecord", self.event, driver.stream)

    def since(self, earlier: LibraryMark) -> float:
        """Seconds on the device's clock, when both are reached."""
        self.driver.wait("EventQuery", self.event, "a kernel")
        found = ctypes.c_float()
        self.driver.call("an event", "EventElapsedTime", ctypes.byref(found), earlier.event, self.event)
        return max(0.0, found.value) * 1e-3 if math.isfinite(found.value) else 0.0


def _address(at: At) -> int:
    memory, offset = at
    return memory.address + offset


def _unload(api: Api, handle: int, image: Any) -> None:
    """HIP reads the image as long as the module is there; so it is kept until then."""
    api.result("ModuleUnload", handle)


def why_not(target: GpuTarget, driver: Callable[[], LibraryDriver], runs: Callable[[str, str], bool]) -> str | None:
    """What is missing here to run code for a target. `runs`: whether code of an architecture runs on another."""
    try:
        here = driver().target
    except UserError as problem:
        return f"was compiled for {target.name}, and {problem}"
    if not runs(target.architecture, here.architecture):
        return f"was compiled for {target.name} ({target.architecture}), {here.name} is {here.architecture}"
    for fact in ("threads", "shared_bytes"):
        wanted, there = getattr(target, fact), getattr(here, fact)
        if wanted > there:
            return f"was compiled for {target.name}, which has {fact} {wanted}; {here.name} has {there}"
    return None
