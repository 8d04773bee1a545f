"""Aligned arrays, and NumPy views of whatever else holds tensors."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorsmith.elements import TABLE
from tensorsmith.errors import OutOfMemory, UserError
from tensorsmith.targets.host import memory_bytes

_BYTE = np.dtype(np.uint8)
ALIGNMENT = 64  # a cache line, and the widest vector register
PAGE = 4096  # bytes after which a processor cannot tell addresses apart at once: see `output_allocator`


def round_up(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_empty(shape: tuple[int, ...], dtype: Any, what: str = "an array") -> np.ndarray:
    """A C-contiguous array whose data starts at a multiple of 64 bytes; its content is undefined. Errors name `what` it is."""
    return aligned_allocator(shape, dtype, what)()


def aligned_allocator(
    shape: tuple[int, ...], dtype: Any, what: str = "an array", start: int = 0, spacing: int = ALIGNMENT
) -> Callable[[], np.ndarray]:
    """What makes `aligned_empty(shape, dtype, what)` again and again, in half the time; at `start` beyond a multiple of `spacing`.

    It raises `OutOfMemory` also where the system would grant more than the machine has, and end the process that touches it.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize + spacing
    fits = size <= memory_bytes()
    empty, ndarray = np.empty, np.ndarray

    def allocate() -> np.ndarray:
        if not fits:
            raise OutOfMemory(what, size - spacing)
        try:
            memory = empty(size, _BYTE)
        except MemoryError:
            raise OutOfMemory(what, size - spacing) from None
        return ndarray(shape, dtype, memory, (start - data_pointer(memory)) % spacing)

    return allocate


def output_allocator(shape: tuple[int, ...], dtype: Any, what: str, number: int = 0) -> Callable[[], np.ndarray]:
    """What makes arrays for the output of that number of a call.

    A load waits for an earlier store whose address differs by a multiple of a page: until the whole addresses are compared it may
    be the same. Large arrays of NumPy and PyTorch all begin within the first 64 bytes of a page, so a result there would meet its
    own operands, and small convolutions would take half as long again. Ours begin in the middle of a page.
    """
    if math.prod(shape) * np.dtype(dtype).itemsize < PAGE:
        return aligned_allocator(shape, dtype, what)
    return aligned_allocator(shape, dtype, what, (PAGE // 2 + number * 9 * ALIGNMENT) % PAGE, PAGE)


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Like `aligned_empty`, filled with zeros (by the kernel, page by page, when first touched)."""
    dtype = np.dtype(dtype)
    memory = np.zeros(math.prod(shape) * dtype.itemsize + ALIGNMENT, _BYTE)
    return np.ndarray(shape, dtype, memory, -data_pointer(memory) % ALIGNMENT)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A C-contiguous, aligned, writable copy."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def as_bytes(array: np.ndarray) -> memoryview:
    """The bytes of a C-contiguous array, not copied."""
    return array.reshape(-1).view(_BYTE).data


def as_array(x: Any, name: str) -> np.ndarray:
    """`x` as an array, without a copy: a NumPy array or scalar, a number, or a CPU tensor that exports `__dlpack__`.

    A number becomes an array of rank 0. `name` is the argument's, for the error.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise UserError(f"{name} is a masked array, and masks are not supported; give {name}.filled(...)")
    if isinstance(x, (np.ndarray, np.generic, bool, int, float)):
        return np.asarray(x)
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(x, name)
    raise UserError(
        f"{name} is a {_type_name(x)}; give a NumPy array (np.asarray(...) with the dtype {name} needs) "
        "or a CPU tensor that exports __dlpack__"
    )


def _from_dlpack(x: Any, name: str) -> np.ndarray:
    if getattr(x, "requires_grad", False) is True:
        raise UserError(f"{name} is a {_type_name(x)} that requires a gradient; give {name}.detach()")
    try:
        device = x.__dlpack_device__()
        if int(device[0]) == _CPU:
            bits = _Bits(x)
            return np.from_dlpack(bits).view(TABLE["bf16"].numpy) if bits.are_of_bf16 else np.from_dlpack(x)
    except Exception as error:  # whatever the other library raises
        raise UserError(f"{name} is a {_type_name(x)} that does not export its data as an array: {error}") from error
    raise UserError(f"{name} is a {_type_name(x)} on another device than the CPU; copy it there first ({name}.cpu())")


_CPU = 1  # kDLCPU
_UNSIGNED, _BFLOAT = 1, 4  # kDLUInt, kDLBfloat
_TYPE_AT = 20  # in a DLTensor, behind the data, the device and the rank


class _Bits:
    """A tensor that says of bf16, which NumPy's importer does not know, that they are u16."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.are_of_bf16 = str(getattr(tensor, "dtype", "")).endswith("bfloat16")

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, **_: Any) -> Any:
        """Without arguments, a library gives the first form of DLPack, in which the type is a byte at a fixed place."""
        capsule = self._tensor.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        code = ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + _TYPE_AT)
        if code.value != _BFLOAT:
            raise TypeError("it calls itself bf16, and exports another type")
        code.value = _UNSIGNED
        return capsule


def _type_name(x: object) -> str:
    kind = type(x)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _pointer_reader() -> Callable[[np.ndarray], int]:
    """The fastest way to an array's data pointer. In CPython it is the field after the object's header (NumPy's C
    interface promises that), which takes 0.1 microseconds to read; the `ctypes` attribute takes 0.7."""

    def by_attribute(array: np.ndarray) -> int:
        return array.ctypes.data

    def by_layout(array: np.ndarray) -> int:
        return from_address(id(array) + header).value or 0

    from_address = ctypes.c_void_p.from_address
    header = object.__basicsize__
    if sys.implementation.name != "cpython":
        return by_attribute
    samples: list[np.ndarray] = [np.empty(3), np.empty((2, 2), np.int8)[1:], np.empty((), np.float32)]
    return by_layout if all(by_layout(a) == by_attribute(a) for a in samples) else by_attribute


#: Address of an array's first element.
data_pointer = _pointer_reader()
