"""The functions of a driver's library that are used, with their types, and how the library is found.

CUDA's and HIP's have the same arguments; a key stands for a function of both, and an `Interface` says what a library calls it.
Anything with functions of these names, which take the same arguments, will do in place of the library: tests have such objects.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.library.errors import NO_DEVICE, OUT_OF_MEMORY, SUCCESS, DriverError, DriverOutOfMemory
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import UserError

HANDLE, OUT_HANDLE, OUT_INT = c_void_p, POINTER(c_void_p), POINTER(c_int)

#: of the functions that every such library has
TYPES: Mapping[str, tuple[Any, ...]] = {
    "Init": (c_uint,),
    "GetVersion": (OUT_INT,),
    "DeviceGetCount": (OUT_INT,),
    "DeviceGetName": (c_char_p, c_int, c_int),
    "DeviceGetAttribute": (OUT_INT, c_int, c_int),
    "DeviceGetPCIBusId": (c_char_p, c_int, c_int),
    "ModuleLoadDataEx": (OUT_HANDLE, c_void_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "ModuleUnload": (HANDLE,),
    "ModuleGetFunction": (OUT_HANDLE, HANDLE, c_char_p),
    "FuncGetAttribute": (OUT_INT, c_int, HANDLE),
    "LaunchKernel": (HANDLE, *(c_uint,) * 7, HANDLE, POINTER(c_void_p), POINTER(c_void_p)),
    "MemAlloc": (POINTER(c_uint64), c_size_t),
    "MemFree": (c_uint64,),
    "MemcpyHtoDAsync": (c_uint64, c_void_p, c_size_t, HANDLE),
    "MemcpyDtoHAsync": (c_void_p, c_uint64, c_size_t, HANDLE),
    "MemcpyDtoDAsync": (c_uint64, c_uint64, c_size_t, HANDLE),
    "MemsetD8Async": (c_uint64, ctypes.c_ubyte, c_size_t, HANDLE),
    "StreamCreate": (OUT_HANDLE, c_uint),
    "StreamQuery": (HANDLE,),
    "EventCreate": (OUT_HANDLE, c_uint),
    "EventRecord": (HANDLE, HANDLE),
    "EventQuery": (HANDLE,),
    "EventElapsedTime": (POINTER(c_float), HANDLE, HANDLE),
    "EventDestroy": (HANDLE,),
}


@dataclass(frozen=True)
class Interface:
    """What is different from library to library."""

    name: str  # of what people program: "CUDA"
    files: tuple[str, ...]  # the library; the first that is found
    driver: str  # what has to be installed, where it is not,
    newer: str  # or where it is too old
    functions: Mapping[str, str]  # by the keys of `TYPES` and `own`
    own: Mapping[str, tuple[Any, ...]]  # types of functions that the others have not
    oldest: int  # version that will do
    version: Callable[[int], str]  # as people write it
    names: Mapping[int, str]  # of results
    meanings: Mapping[int, str]  # what is the matter, and what to do
    name_of: Callable[[Api, int], str]  # the library's own name of a result, where `names` has none; "": it knows none either
    current: Callable[[Api, int], tuple[str, int]]  # what makes a device that of the calling thread: a function and its argument
    facts: Callable[[Api, int], GpuTarget]
    clocks: Callable[[str], str]  # of the device at a place of the bus, just now, for people; "": they cannot be read
    language: str  # of the code that it takes,
    image: Callable[[Launches, GpuTarget], bytes]  # and what of it is loaded
    compiles: bool  # when it is loaded, with something to say of errors
    such_as: str  # a target whose code it takes
    dlpack: int  # dlpack.h, `DLDeviceType`,
    default_stream: int  # and what its protocol calls the default stream
    returning: Mapping[str, Any] = field(default_factory=dict)  # what functions return that give no result


class Api:
    """The functions by their keys, each of which raises a `DriverError` unless it succeeds; `what` says for what it is called."""

    def __init__(self, interface: Interface, library: Any) -> None:
        self.interface, self.library = interface, library

    def call(self, key: str, *arguments: Any, what: str = "") -> None:
        code = self.result(key, *arguments)
        if code != SUCCESS:
            raise self.error(what or f"{self.interface.name}'s {self.interface.functions[key]}", code)

    def result(self, key: str, *arguments: Any) -> int:
        """What the function says itself."""
        return int(self.raw(key, *arguments))

    def raw(self, key: str, *arguments: Any) -> Any:
        """What the function returns, which is a result for most."""
        return getattr(self.library, self.interface.functions[key])(*arguments)

    def error(self, what: str, code: int, more: str = "") -> DriverError:
        kind = DriverOutOfMemory if code == OUT_OF_MEMORY else DriverError
        name = self.interface.names.get(code) or self.interface.name_of(self, code)
        return kind(what, code, name, self.interface.meanings.get(code, ""), more)

    def number(self, key: str, *arguments: Any, what: str = "") -> int:
        """A function's number, which it gives through its first argument."""
        found = c_int()
        self.call(key, ctypes.byref(found), *arguments, what=what)
        return found.value

    def handle(self, key: str, *arguments: Any, what: str = "") -> int:
        """A function's handle, which it gives through its first argument."""
        found = c_void_p()
        self.call(key, ctypes.byref(found), *arguments, what=what)
        return found.value or 0

    def told(self, attributes: Mapping[str, int], number: int) -> dict[str, int]:
        """What a device says of itself; 0 where the driver does not know the attribute."""
        found, facts = c_int(), {}
        for fact, attribute in attributes.items():
            result = self.result("DeviceGetAttribute", ctypes.byref(found), attribute, number)
            facts[fact] = found.value if result == SUCCESS else 0
        return facts

    def device_name(self, number: int) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("DeviceGetName", text, len(text), number, what=f"asking a {self.interface.name} device for its name")
        return text.value.decode(errors="replace")


def library(interface: Interface) -> Any:
    """The driver's library. Raises `UserError` where there is none."""
    found = None
    for name in interface.files:
        try:
            found = ctypes.CDLL(name)
            break
        except OSError:
            continue
    if found is None:
        raise UserError(f"no {interface.name} here: there is no {interface.files[0]}; install {interface.driver}")
    for key, function in interface.functions.items():
        try:
            entry = getattr(found, function)
        except AttributeError:
            raise UserError(f"no {interface.name} here: {name} has no function {function}; install {interface.newer}") from None
        entry.argtypes = TYPES[key] if key in TYPES else interface.own[key]
        entry.restype = interface.returning.get(key, c_int)
    return found


def opened(interface: Interface, given: Any = None) -> Api:
    """The driver, ready to be asked, if it is new enough. Raises `UserError` with what is missing."""
    name = interface.name
    api = Api(interface, library(interface) if given is None else given)
    version = api.number("GetVersion", what=f"asking {name}'s driver for its version")
    if version < interface.oldest:
        here, wanted = interface.version(version), interface.version(interface.oldest)
        raise UserError(f"no {name} here: the driver is for {name} {here}, and {wanted} is needed; install {interface.newer}")
    api.call("Init", 0, what=f"starting {name}'s driver")
    if api.number("DeviceGetCount", what=f"counting {name}'s devices") < 1:
        raise api.error(f"finding a {name} device", NO_DEVICE)
    return api
