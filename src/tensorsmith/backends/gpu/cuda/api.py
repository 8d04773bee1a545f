"""The functions of NVIDIA's driver library that are used, with their types, and how the library is found.

Anything with functions of these names, which take the same arguments, will do in place of the library: tests have such an object.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from tensorsmith.backends.gpu.cuda.errors import OUT_OF_MEMORY, SUCCESS, CudaError, CudaOutOfMemory
from tensorsmith.errors import UserError

OLDEST = 11000  # the version of CUDA whose drivers take our PTX (7.0), as 1000 * major + 10 * minor

_HANDLE, _OUT_HANDLE, _OUT_INT = c_void_p, POINTER(c_void_p), POINTER(c_int)

#: cuda.h; names with a version are those that its macros stand for
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_OUT_INT,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (_OUT_INT,),
    "cuDeviceGet": (_OUT_INT, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_OUT_INT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_OUT_HANDLE, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (_HANDLE,),
    "cuModuleLoadDataEx": (_OUT_HANDLE, c_void_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleUnload": (_HANDLE,),
    "cuModuleGetFunction": (_OUT_HANDLE, _HANDLE, c_char_p),
    "cuFuncGetAttribute": (_OUT_INT, c_int, _HANDLE),
    "cuLaunchKernel": (_HANDLE, *(c_uint,) * 7, _HANDLE, POINTER(c_void_p), POINTER(c_void_p)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, _HANDLE),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, _HANDLE),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, _HANDLE),
    "cuMemsetD8Async": (c_uint64, ctypes.c_ubyte, c_size_t, _HANDLE),
    "cuStreamCreate": (_OUT_HANDLE, c_uint),
    "cuStreamQuery": (_HANDLE,),
    "cuStreamSynchronize": (_HANDLE,),
    "cuStreamDestroy_v2": (_HANDLE,),
    "cuEventCreate": (_OUT_HANDLE, c_uint),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventQuery": (_HANDLE,),
    "cuEventSynchronize": (_HANDLE,),
    "cuEventElapsedTime": (POINTER(c_float), _HANDLE, _HANDLE),
    "cuEventDestroy_v2": (_HANDLE,),
}


class Api:
    """The functions, each of which raises a `CudaError` unless it succeeds; `what` says for what it is called."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def call(self, function: str, *arguments: Any, what: str = "") -> None:
        code = self.result(function, *arguments)
        if code != SUCCESS:
            kind = CudaOutOfMemory if code == OUT_OF_MEMORY else CudaError
            raise kind(what or f"CUDA's {function}", code, self._name(code))

    def result(self, function: str, *arguments: Any) -> int:
        """What the function says itself."""
        return int(getattr(self.library, function)(*arguments))

    def _name(self, code: int) -> str:
        """The driver's name of a result that is newer than ours."""
        found = c_char_p()
        if self.result("cuGetErrorName", code, ctypes.byref(found)) != SUCCESS or not found.value:
            return ""
        return found.value.decode(errors="replace")

    def number(self, function: str, *arguments: Any, what: str = "") -> int:
        """A function's number, which it gives through its first argument."""
        found = c_int()
        self.call(function, ctypes.byref(found), *arguments, what=what)
        return found.value

    def handle(self, function: str, *arguments: Any, what: str = "") -> int:
        """A function's handle, which it gives through its first argument."""
        found = c_void_p()
        self.call(function, ctypes.byref(found), *arguments, what=what)
        return found.value or 0


def library() -> Any:
    """NVIDIA's driver library. Raises `UserError` where there is none."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        found = ctypes.CDLL(name)
    except OSError:
        raise UserError(f"no CUDA here: there is no {name}; install NVIDIA's driver") from None
    for function, types in FUNCTIONS.items():
        try:
            entry = getattr(found, function)
        except AttributeError:
            raise UserError(f"no CUDA here: {name} has no function {function}; install a newer NVIDIA driver") from None
        entry.argtypes, entry.restype = types, c_int
    return found


def opened(given: Any = None) -> Api:
    """The driver, ready to be asked, if it is new enough. Raises `UserError` with what is missing."""
    api = Api(library() if given is None else given)
    version = api.number("cuDriverGetVersion", what="asking CUDA's driver for its version")
    if version < OLDEST:
        here, wanted = (f"{v // 1000}.{v % 1000 // 10}" for v in (version, OLDEST))
        raise UserError(f"no CUDA here: the driver is for CUDA {here}, and {wanted} is needed; install a newer NVIDIA driver")
    api.call("cuInit", 0, what="starting CUDA's driver")
    if api.number("cuDeviceGetCount", what="counting CUDA's devices") < 1:
        raise CudaError("finding a CUDA device", 100)
    return api
