"""What is CUDA's own: cuda.h. Names with a version are those that its macros stand for."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int

from tensorsmith.backends.gpu.cuda.clocks import clocks
from tensorsmith.backends.gpu.cuda.facts import target
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.library.api import HANDLE, OUT_HANDLE, Api, Interface
from tensorsmith.backends.gpu.library.errors import COMMON_MEANINGS, SUCCESS
from tensorsmith.backends.gpu.target import GpuTarget

FUNCTIONS = {
    "Init": "cuInit",
    "GetVersion": "cuDriverGetVersion",
    "GetErrorName": "cuGetErrorName",
    "DeviceGetCount": "cuDeviceGetCount",
    "DeviceGetName": "cuDeviceGetName",
    "DeviceGetAttribute": "cuDeviceGetAttribute",
    "DeviceGetPCIBusId": "cuDeviceGetPCIBusId",
    "PrimaryCtxRetain": "cuDevicePrimaryCtxRetain",
    "CtxSetCurrent": "cuCtxSetCurrent",
    "ModuleLoadDataEx": "cuModuleLoadDataEx",
    "ModuleUnload": "cuModuleUnload",
    "ModuleGetFunction": "cuModuleGetFunction",
    "FuncGetAttribute": "cuFuncGetAttribute",
    "LaunchKernel": "cuLaunchKernel",
    "MemAlloc": "cuMemAlloc_v2",
    "MemFree": "cuMemFree_v2",
    "MemcpyHtoDAsync": "cuMemcpyHtoDAsync_v2",
    "MemcpyDtoHAsync": "cuMemcpyDtoHAsync_v2",
    "MemcpyDtoDAsync": "cuMemcpyDtoDAsync_v2",
    "MemsetD8Async": "cuMemsetD8Async",
    "StreamCreate": "cuStreamCreate",
    "StreamQuery": "cuStreamQuery",
    "EventCreate": "cuEventCreate",
    "EventRecord": "cuEventRecord",
    "EventQuery": "cuEventQuery",
    "EventElapsedTime": "cuEventElapsedTime",
    "EventDestroy": "cuEventDestroy_v2",
}

#: `CUresult`
NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 3: "CUDA_ERROR_NOT_INITIALIZED", 4: "CUDA_ERROR_DEINITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY", 46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE", 101: "CUDA_ERROR_INVALID_DEVICE",
    200: "CUDA_ERROR_INVALID_IMAGE", 201: "CUDA_ERROR_INVALID_CONTEXT", 209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE", 218: "CUDA_ERROR_INVALID_PTX", 221: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 500: "CUDA_ERROR_NOT_FOUND", 600: "CUDA_ERROR_NOT_READY",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS", 701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 702: "CUDA_ERROR_LAUNCH_TIMEOUT",
    715: "CUDA_ERROR_ILLEGAL_INSTRUCTION", 716: "CUDA_ERROR_MISALIGNED_ADDRESS", 719: "CUDA_ERROR_LAUNCH_FAILED",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", 999: "CUDA_ERROR_UNKNOWN",
}  # fmt: skip

MEANINGS = {
    **COMMON_MEANINGS,
    34: "the library is a stub for linking, not a driver; install NVIDIA's driver",
    46: "another process has the device for itself",
    100: "the driver knows no device; is one there, and is it allowed to be seen (CUDA_VISIBLE_DEVICES)?",
    218: "the driver's compiler does not take the code",
    221: "the driver has no compiler for PTX; install the whole driver",
    222: "the driver is older than the code's version of PTX; install a newer NVIDIA driver",
    715: "a kernel ran an instruction that the device does not have; the process has to be started anew",
    716: "a kernel touched memory at an address that is not aligned; the process has to be started anew",
    803: "the driver's library and its kernel module are of different versions; restart the machine, or install the driver again",
    804: "the driver's compatibility library does not know this device; install a newer NVIDIA driver",
}


def _name_of(api: Api, code: int) -> str:
    found = c_char_p()
    if api.result("GetErrorName", code, ctypes.byref(found)) != SUCCESS or not found.value:
        return ""
    return found.value.decode(errors="replace")


def _current(api: Api, number: int) -> tuple[str, int]:
    name = api.device_name(number)
    return "CtxSetCurrent", api.handle("PrimaryCtxRetain", number, what=f"opening CUDA device {name}")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _image(launches: Launches, target: GpuTarget) -> bytes:
    return launches.text.encode()


CUDA = Interface(
    name="CUDA",
    files=("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1",),
    driver="NVIDIA's driver",
    newer="a newer NVIDIA driver",
    functions=FUNCTIONS,
    own={"GetErrorName": (c_int, POINTER(c_char_p)), "PrimaryCtxRetain": (OUT_HANDLE, c_int), "CtxSetCurrent": (HANDLE,)},
    oldest=11000,  # whose drivers take our PTX (7.0)
    version=_version,
    names=NAMES,
    meanings=MEANINGS,
    name_of=_name_of,
    current=_current,
    facts=target,
    clocks=clocks,
    language="ptx",
    image=_image,
    compiles=True,
    such_as="a100",
    dlpack=2,  # `kDLCUDA`
    default_stream=1,
)
