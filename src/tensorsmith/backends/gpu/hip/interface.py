"""What is HIP's own: hip_runtime_api.h, of ROCm 6 and newer."""

from __future__ import annotations

import base64
import sys
from ctypes import c_char_p, c_int, c_void_p

from tensorsmith.backends.gpu.hip.clocks import clocks
from tensorsmith.backends.gpu.hip.facts import target
from tensorsmith.backends.gpu.hip.link import FOLDERS, linked
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.library.api import Api, Interface
from tensorsmith.backends.gpu.library.errors import COMMON_MEANINGS
from tensorsmith.backends.gpu.target import GpuTarget

FUNCTIONS = {
    "Init": "hipInit",
    "GetVersion": "hipRuntimeGetVersion",
    "GetErrorName": "hipGetErrorName",
    "DeviceGetCount": "hipGetDeviceCount",
    "DeviceGetName": "hipDeviceGetName",
    "DeviceGetAttribute": "hipDeviceGetAttribute",
    "DeviceGetPCIBusId": "hipDeviceGetPCIBusId",
    "GetDeviceProperties": "hipGetDevicePropertiesR0600",
    "SetDevice": "hipSetDevice",
    "ModuleLoadDataEx": "hipModuleLoadDataEx",
    "ModuleUnload": "hipModuleUnload",
    "ModuleGetFunction": "hipModuleGetFunction",
    "FuncGetAttribute": "hipFuncGetAttribute",
    "LaunchKernel": "hipModuleLaunchKernel",
    "MemAlloc": "hipMalloc",
    "MemFree": "hipFree",
    "MemcpyHtoDAsync": "hipMemcpyHtoDAsync",
    "MemcpyDtoHAsync": "hipMemcpyDtoHAsync",
    "MemcpyDtoDAsync": "hipMemcpyDtoDAsync",
    "MemsetD8Async": "hipMemsetD8Async",
    "StreamCreate": "hipStreamCreateWithFlags",
    "StreamQuery": "hipStreamQuery",
    "EventCreate": "hipEventCreateWithFlags",
    "EventRecord": "hipEventRecord",
    "EventQuery": "hipEventQuery",
    "EventElapsedTime": "hipEventElapsedTime",
    "EventDestroy": "hipEventDestroy",
}

#: `hipError_t`
NAMES = {
    1: "hipErrorInvalidValue", 2: "hipErrorOutOfMemory", 3: "hipErrorNotInitialized", 9: "hipErrorInvalidConfiguration",
    35: "hipErrorInsufficientDriver", 98: "hipErrorInvalidDeviceFunction", 100: "hipErrorNoDevice", 101: "hipErrorInvalidDevice",
    200: "hipErrorInvalidImage", 201: "hipErrorInvalidContext", 209: "hipErrorNoBinaryForGpu", 214: "hipErrorECCNotCorrectable",
    218: "hipErrorInvalidKernelFile", 303: "hipErrorSharedObjectInitFailed", 500: "hipErrorNotFound", 600: "hipErrorNotReady",
    700: "hipErrorIllegalAddress", 701: "hipErrorLaunchOutOfResources", 702: "hipErrorLaunchTimeOut", 719: "hipErrorLaunchFailure",
    801: "hipErrorNotSupported", 999: "hipErrorUnknown",
}  # fmt: skip

_NO_DEVICE = "ROCm knows no device; is one there, and may this user see it (groups render and video, HIP_VISIBLE_DEVICES)?"

MEANINGS = {
    **COMMON_MEANINGS,
    9: "a kernel has more threads than the device takes",
    35: "the system's amdgpu driver is older than ROCm; install the one that belongs to it",
    100: _NO_DEVICE,
    101: _NO_DEVICE,  # what the library says where there is no driver of the system either
    200: "ROCm does not take the code object",
}


def _name_of(api: Api, code: int) -> str:
    """It knows words for all numbers, and `hipErrorUnknown` for those that are none of its."""
    found = api.raw("GetErrorName", code)
    return "" if not found or found == b"hipErrorUnknown" else str(found.decode(errors="replace"))


def _current(api: Api, number: int) -> tuple[str, int]:
    return "SetDevice", number


def _version(number: int) -> str:
    return f"{number // 10_000_000}.{number // 100_000 % 100}"


def _image(launches: Launches, target: GpuTarget) -> bytes:
    return linked(base64.b64decode(launches.text), target.architecture)


_FILES = ("libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so", *(f"{folder}/lib/libamdhip64.so" for folder in FOLDERS))

HIP = Interface(
    name="HIP",
    files=("amdhip64_6.dll", "amdhip64_7.dll") if sys.platform == "win32" else _FILES,
    driver="AMD's ROCm",
    newer="a newer ROCm",
    functions=FUNCTIONS,
    own={"GetErrorName": (c_int,), "SetDevice": (c_int,), "GetDeviceProperties": (c_void_p, c_int)},
    returning={"GetErrorName": c_char_p},
    oldest=60_000_000,  # the first whose own compiler writes the version of code objects that ours have
    version=_version,
    names=NAMES,
    meanings=MEANINGS,
    name_of=_name_of,
    current=_current,
    facts=target,
    clocks=clocks,
    language="amdgpu",
    image=_image,
    compiles=False,
    such_as="mi300x",
    dlpack=10,  # `kDLROCM`
    default_stream=0,
)
