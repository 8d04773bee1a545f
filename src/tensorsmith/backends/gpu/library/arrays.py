"""Arrays in device memory: given to others, and taken from them, without a copy.

CuPy, Numba, PyTorch and JAX know two ways: the attribute `__cuda_array_interface__`, and DLPack, a capsule around a structure in C.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.library.device import LibraryDriver, LibraryMemory
from tensorsmith.errors import UserError

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # dlpack.h, `DLDataTypeCode`
_KINDS = {code: kind for kind, code in _CODES.items()}


class DeviceArray:
    """Elements one behind the other in device memory. `numpy()` copies them to the host."""

    def __init__(
        self, driver: LibraryDriver, memory: LibraryMemory, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int = 0
    ) -> None:
        self.driver, self.memory, self.offset = driver, memory, offset
        self.shape, self.dtype = shape, np.dtype(dtype)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.driver.name})"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def address(self) -> int:
        return self.memory.address + self.offset

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        found = np.empty(self.shape, self.dtype)
        self.driver.read(found, (self.memory, self.offset))
        return found

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. Whoever takes it waits for our stream before reading."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": self.driver.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.driver.api.interface.dlpack, self.driver.number

    def __dlpack__(self, *, stream: Any = None, **others: Any) -> Any:
        """A capsule that keeps the memory. What was started on our stream is done before it is given away."""
        self.driver.finish()
        return _capsule(self)


def on_device(array: np.ndarray[Any, np.dtype[Any]], driver: LibraryDriver) -> DeviceArray:
    """A copy of an array of the host."""
    array = np.asarray(array, order="C")
    memory = driver.allocate(array.nbytes)
    driver.write((memory, 0), array)
    return DeviceArray(driver, memory, array.shape, array.dtype)


def is_on_device(x: Any, driver: LibraryDriver) -> bool:
    """Whether something is an array in the memory of a driver's devices, of ours or of another package."""
    if hasattr(x, "__cuda_array_interface__"):
        return True
    asked = getattr(x, "__dlpack_device__", None)
    return asked is not None and not isinstance(x, np.ndarray) and int(asked()[0]) == driver.api.interface.dlpack


def taken(x: Any, driver: LibraryDriver, name: str = "the array") -> DeviceArray:
    """An array of another package, without a copy; it lives as long as what is returned."""
    if isinstance(x, DeviceArray):
        return x
    if hasattr(x, "__cuda_array_interface__"):
        return _by_interface(x, driver, name)
    if is_on_device(x, driver):
        return _by_capsule(x, driver, name)
    raise UserError(f"{name} is not in the memory of a {driver.api.interface.name} device")


def _by_interface(x: Any, driver: LibraryDriver, name: str) -> DeviceArray:
    told = x.__cuda_array_interface__
    shape, dtype = tuple(int(n) for n in told["shape"]), np.dtype(told["typestr"])
    address = told["data"][0]
    if told.get("strides") is not None and not _dense(shape, tuple(told["strides"]), dtype.itemsize):
        raise UserError(f"{name} is not C-contiguous; give one that is")
    size = math.prod(shape) * dtype.itemsize
    return DeviceArray(driver, LibraryMemory(int(address), size, x), shape, dtype)


def _dense(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != size:
            return False
        size *= extent
    return True


# -- DLPack: dlpack.h, version 0.8 ---------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))

_NAME, _USED = b"dltensor", b"used_dltensor"
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_python.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)

#: what capsules that we gave away point to, by address, until whoever took them is done
_given: dict[int, tuple[Any, ...]] = {}


@_DELETER
def _release(managed: Any) -> None:
    _given.pop(ctypes.addressof(managed.contents), None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _dropped(capsule: int) -> None:
    """A capsule that nobody took gives its memory back when it ends; one that was taken bears another name by then."""
    pointer = _python_raw_pointer(capsule, _NAME) if _python_raw_valid(capsule, _NAME) else None
    if pointer:
        _given.pop(pointer, None)


_python_raw_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_python_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _capsule(array: DeviceArray) -> Any:
    managed = _Managed()
    extents = (ctypes.c_int64 * max(1, len(array.shape)))(*array.shape)
    managed.tensor = _Tensor(
        array.address, *array.__dlpack_device__(), len(array.shape), _CODES[array.dtype.kind], 8 * array.dtype.itemsize, 1, extents,
        None, 0,
    )  # fmt: skip
    managed.deleter = _release
    address = ctypes.addressof(managed)
    _given[address] = (managed, extents, array)
    return _python.PyCapsule_New(address, _NAME, ctypes.cast(_dropped, ctypes.c_void_p))


class _Taken:
    """A capsule's structure of another package: told that it is no longer needed when this goes."""

    def __init__(self, managed: Any) -> None:
        self.managed = managed

    def __del__(self) -> None:
        deleter = self.managed.contents.deleter
        if deleter:
            deleter(self.managed)


def _by_capsule(x: Any, driver: LibraryDriver, name: str) -> DeviceArray:
    capsule = x.__dlpack__(stream=driver.api.interface.default_stream)  # what was started there is done when we are given it
    if not _python.PyCapsule_IsValid(capsule, _NAME):
        raise UserError(f"{name} gives no DLPack capsule")
    managed = ctypes.cast(_python.PyCapsule_GetPointer(capsule, _NAME), ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    shape = tuple(tensor.shape[n] for n in range(tensor.ndim))
    if tensor.code not in _KINDS or tensor.lanes != 1:
        raise UserError(f"{name} is of a type that is not known here (DLPack's {tensor.code}, {tensor.bits} bits)")
    dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    if tensor.strides:
        strides = tuple(tensor.strides[n] * dtype.itemsize for n in range(tensor.ndim))
        if not _dense(shape, strides, dtype.itemsize):
            raise UserError(f"{name} is not C-contiguous; give one that is")
    _python.PyCapsule_SetName(capsule, _USED)
    owner = _Taken(managed)
    memory = LibraryMemory(int(tensor.data or 0), math.prod(shape) * dtype.itemsize, (owner, capsule))
    return DeviceArray(driver, memory, shape, dtype, int(tensor.byte_offset))
