"""The arguments of an executable: what they must be, and arrays made to fit or refused with a reason."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.elements import BY_NUMPY, TABLE
from tensorsmith.errors import UserError
from tensorsmith.runtime.buffers import aligned_empty, as_array, data_pointer
from tensorsmith.show.line import line, many, plain

#: the name of the input that has the number of the call, in networks that draw random numbers: the last of their inputs
CALL_NUMBER = "tensorsmith.call_number"

#: the name of the input that has the table of counts, in networks that serve a range of sizes: the last of their inputs
COUNTS = "tensorsmith.counts"

DTYPES: dict[str, np.dtype] = {name: facts.numpy for name, facts in TABLE.items()}


@dataclass(frozen=True)
class Argument:
    """An input or output: `dtype` is a name of `DTYPES`."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @functools.cached_property
    def numpy_dtype(self) -> np.dtype:
        return DTYPES[self.dtype]

    @property
    def kind(self) -> str:
        """As in `elements.DType`: "f", "i", "u" or "b"."""
        return TABLE[self.dtype].kind

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.numpy_dtype.itemsize

    def __repr__(self) -> str:
        return line(self, self)

    def __str__(self) -> str:
        return plain(f"{self.name}: {self.dtype}{list(self.shape)}")


def in_order(owner: str, names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Positional and named inputs of `owner` in the order of their `names`."""
    left = names[len(args) :]
    if named.keys() == set(left) and len(args) <= len(names):
        return (*args, *[named[name] for name in left])
    every = ", ".join(names) or "none"
    unknown = [name for name in named if name not in names]
    if unknown:
        raise UserError(f"{owner} has no input {unknown[0]!r}; its inputs are {every}")
    twice = [name for name in names[: len(args)] if name in named]
    if twice:
        raise UserError(f"{owner} got {twice[0]} twice: by position and by name")
    raise UserError(f"{owner} takes {many(len(names), 'input')} ({every}), {len(args) + len(named)} given")


def accept_input(argument: Argument, x: Any) -> np.ndarray:
    """An input as an array of the right type and shape, contiguous and aligned; copied only if it must be."""
    name, dtype = argument.name, argument.numpy_dtype
    if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic) and argument.shape == ():
        return _number(argument, x)
    array = as_array(x, name)
    _check_dtype(argument, array)
    _check_shape(argument, array)
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    copy = aligned_empty(argument.shape, dtype, f"a copy of input {name}")
    copy[...] = array
    return copy


def accept_output(argument: Argument, x: Any) -> np.ndarray:
    """An array to write an output to, as it was given."""
    where = f"out for {argument.name}"
    if isinstance(x, (bool, int, float, np.generic)):
        raise UserError(f"{where} is a {type(x).__name__}; give a writable array")
    array = as_array(x, where)
    _check_dtype(argument, array, where)
    _check_shape(argument, array, where)
    if not array.flags.writeable:
        raise UserError(f"{where} is read-only; give a writable array")
    if not array.flags.carray:
        raise UserError(f"{where} is not C-contiguous and aligned; give an array that is, or none")
    return array


def check_overlap(
    inputs: Sequence[Argument], outputs: Sequence[Argument], arrays: list[np.ndarray], results: list[np.ndarray]
) -> None:
    """Raises `UserError` where an output's memory is another argument's too. All are contiguous, so each is one range of memory."""
    others = [(start := data_pointer(array), start + array.nbytes) for array in arrays]
    for argument, array in zip(outputs, results):
        start = data_pointer(array)
        end = start + array.nbytes
        for other_start, other_end in others:
            if max(start, other_start) < min(end, other_end):  # false for empty arrays
                other = (*inputs, *outputs)[others.index((other_start, other_end))].name
                raise UserError(f"out for {argument.name} overlaps the memory of {other}; give an array of its own")
        others.append((start, end))


def random_arrays(arguments: Sequence[Argument]) -> list[np.ndarray]:
    """The same ones every time: floats in -1..1, integers all ones."""
    generator = np.random.default_rng(0)
    return [
        generator.uniform(-1, 1, a.shape).astype(a.numpy_dtype) if a.kind == "f" else np.ones(a.shape, a.numpy_dtype)
        for a in arguments
    ]


def _check_dtype(argument: Argument, array: np.ndarray, where: str = "") -> None:
    if array.dtype != argument.numpy_dtype:
        given = BY_NUMPY.get(array.dtype, str(array.dtype))
        hint = " (byte order swapped)" if array.dtype.newbyteorder() == argument.numpy_dtype else ""
        raise UserError(f"{where or argument.name} must be {argument.dtype}, {given}{hint} given")


def _check_shape(argument: Argument, array: np.ndarray, where: str = "") -> None:
    if array.shape != argument.shape:
        raise UserError(f"{where or argument.name} must have shape {argument.shape}, {array.shape} given")


def _number(argument: Argument, x: bool | int | float) -> np.ndarray:
    """A Python number as an array of rank 0: it has no dtype of its own, so it takes the argument's if it fits."""
    dtype = argument.numpy_dtype
    fits = {"b": (bool,), "f": (int, float), "i": (int,), "u": (int,)}[argument.kind]
    if isinstance(x, bool) != (argument.kind == "b") or not isinstance(x, fits):
        raise UserError(f"{argument.name} must be {argument.dtype}, the {type(x).__name__} {x!r} given")
    try:
        return np.array(x, dtype)
    except OverflowError:
        raise UserError(f"{argument.name} must be {argument.dtype}, which cannot hold {x!r}") from None
