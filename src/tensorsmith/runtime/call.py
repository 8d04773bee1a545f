"""Plain calls of an executable, made by compiled code.

A call is *plain* if it needs nothing but checks: every input and output is a NumPy array of exactly the right type and shape,
contiguous and aligned, the outputs are writable and apart from everything else, and there is a frame for the pool. Nearly every
call is. Checking that in Python takes microseconds; the code of `call_ir` takes a fraction of one, because it reads the arrays' own
fields. What it refuses goes the long way in `executable`, the one place that copies, converts and explains.

Python holds its lock (the GIL) while arguments are checked and a frame is taken, and releases it while the kernel runs. The code is
a part of the process's driver, so a loaded executable has it without a compiler. It is made callable by CPython's own
`PyCFunction_NewEx`. Where arrays or objects do not look the way the code expects them, no call is plain.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorsmith.runtime import pool
from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.call_ir import ARRAY, FUNCTIONS, PYTHON, TABLE
from tensorsmith.runtime.driver import process_driver

#: Takes the tuple of the inputs, and the output or a sequence of several; gives the output, or the tuple of them. None: this was
#: no plain call, and nothing has happened.
PlainCall = Callable[[tuple[Any, ...], Any], Any]

_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x0001, 0x0100, 0x0400  # NumPy's flags
_METH_FASTCALL = 0x0080


def plain_call(
    inputs: Sequence[Argument],
    outputs: Sequence[Argument],
    slots: Sequence[Sequence[int]],
    entry: int,
    free: list[int],
    keep: object,
    threads: int | None = None,
) -> PlainCall:
    """The function for the code at `entry`. `slots` are those of each input, then each output; `free` has the addresses of the
    frames not in use; `keep` owns the frames, the code and what they point to; `threads` run it unless its caller wants others."""
    if not _fits_this_python():
        return never_plain
    words = [0] * TABLE["SPECIFICATIONS"]
    words[TABLE["PYTHON"]] = _python(threads).ctypes.data
    words[TABLE["INPUTS"]] = len(inputs)
    words[TABLE["OUTPUTS"]] = len(outputs)
    words[TABLE["ENTRY"]] = entry
    words[TABLE["FREE"]] = id(free)
    for n, (argument, its_slots) in enumerate(zip((*inputs, *outputs), slots, strict=True)):
        flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if n >= len(inputs) else 0)
        words += [id(argument.numpy_dtype), flags, argument.bytes, len(argument.shape), len(its_slots), *argument.shape, *its_slots]
    table = np.array(words, np.uint64).view(_Table)
    table.keep = (free, keep)
    return _new_function(table)


def plain_calls(function: PlainCall) -> int:
    """How many of its calls were plain."""
    return int(function.__self__[TABLE["CALLS"]]) if function is not never_plain else 0  # type: ignore[attr-defined]


def never_plain(inputs: tuple[Any, ...], out: Any) -> None:
    """Where no call is plain."""


class _Table(np.ndarray):
    """A table of `call_ir`, with what its addresses belong to."""

    keep: object


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


@functools.cache
def _method() -> _Method:
    return _Method(b"plain_call", process_driver().address("plain_call"), _METH_FASTCALL, None)


def _new_function(table: _Table) -> PlainCall:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return new(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(_method()), table, None)


@functools.cache
def _python(threads: int | None) -> np.ndarray:
    """The words that all tables share whose executables have that number of threads. Everything they point to lives as long as the
    process."""
    functions = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in FUNCTIONS}
    objects = {
        "None": None,
        "ndarray": np.ndarray,
        "tuple": tuple,
        "list": list,
        "wanted": pool.wanted,
        "addresses": pool.addresses(threads),
    }
    addresses = {**functions, **{name: id(value) for name, value in objects.items()}}
    return np.array([addresses[name] for name in PYTHON], np.uint64)


@functools.cache
def _fits_this_python() -> bool:
    """Whether objects have CPython's usual header (those of builds without the GIL, for debugging, or of 32 bits have not), and
    arrays the fields that NumPy's C interface promises: tried on a few of different kinds."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != ARRAY["DATA"]:
        return False
    locked = np.zeros((1, 2), np.int64)
    locked.flags.writeable = False
    strided = np.zeros((4, 6), np.float16)[::2, ::-1]
    samples: list[np.ndarray] = [np.zeros(3), np.zeros((2, 5), np.int8)[1:], np.zeros((), np.float32), strided, locked]
    return all(_has_the_fields(sample) for sample in samples)


def _has_the_fields(array: np.ndarray) -> bool:
    def field(kind: Any, name: str) -> int:
        return kind.from_address(id(array) + ARRAY[name]).value or 0

    pointers = {"TYPE": id(np.ndarray), "DATA": array.ctypes.data, "DESCR": id(array.dtype)}
    numbers = {"RANK": array.ndim, "FLAGS": array.flags.num}
    if any(field(ctypes.c_void_p, name) != value for name, value in pointers.items()):
        return False
    if any(field(ctypes.c_int, name) != value for name, value in numbers.items()):
        return False
    return not array.ndim or tuple((ctypes.c_int64 * array.ndim).from_address(field(ctypes.c_void_p, "SHAPE"))) == array.shape
