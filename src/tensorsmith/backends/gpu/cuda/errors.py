"""The results of CUDA's functions by name, and what users are told of each that they can do something about."""

from __future__ import annotations

from tensorsmith.errors import UserError

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE, NOT_FOUND, NOT_READY = 0, 1, 2, 100, 500, 600

#: cuda.h, `CUresult`
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

#: what is the matter, and what to do
MEANINGS = {
    2: "the device has no memory left; close what else uses it, or run smaller sizes",
    34: "the library is a stub for linking, not a driver; install NVIDIA's driver",
    46: "another process has the device for itself",
    100: "the driver knows no device; is one there, and is it allowed to be seen (CUDA_VISIBLE_DEVICES)?",
    209: "the code is for another architecture than the device's",
    218: "the driver's compiler does not take the code",
    221: "the driver has no compiler for PTX; install the whole driver",
    222: "the driver is older than the code's version of PTX; install a newer NVIDIA driver",
    700: "a kernel touched memory that is not its own; the process has to be started anew",
    701: "a kernel needs more registers or threads than the device has",
    702: "a kernel did not end in the time that the system gives it, and was stopped; the process has to be started anew",
    715: "a kernel ran an instruction that the device does not have; the process has to be started anew",
    716: "a kernel touched memory at an address that is not aligned; the process has to be started anew",
    719: "a kernel failed; the process has to be started anew",
    803: "the driver's library and its kernel module are of different versions; restart the machine, or install the driver again",
    804: "the driver's compatibility library does not know this device; install a newer NVIDIA driver",
}


class CudaError(UserError):
    """A function of the driver failed. `code` is its result."""

    def __init__(self, what: str, code: int, name: str = "", more: str = "") -> None:
        self.code = code
        named = NAMES.get(code) or name or f"result {code}"
        meaning = f": {MEANINGS[code]}" if code in MEANINGS else ""
        super().__init__(f"{what} failed with {named}{meaning}{f' ({more})' if more else ''}")


class CudaOutOfMemory(CudaError, MemoryError):
    """There is not as much device memory."""
