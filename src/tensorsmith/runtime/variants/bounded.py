"""A *bounded variant*: code for all sizes up to some largest ones, which reads in each call how much there is.

Its network has the strides of the largest sizes. A call copies its inputs to the beginnings of arrays of these, gives the table of
counts as one more input, and takes its results from the beginnings of arrays again. Such arrays stay for the next call; each Python
thread that calls at the same time has its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.runtime.arguments import DTYPES, Argument, accept_input
from tensorsmith.runtime.buffers import aligned_empty, aligned_zeros
from tensorsmith.runtime.executable import Executable, Memory
from tensorsmith.runtime.profile import Profile
from tensorsmith.runtime.variants.bounds import Bounds, form_value, number_value
from tensorsmith.runtime.variants.symbols import OpenArgument, Sizes, shown
from tensorsmith.show.line import line

_MOST_SIZES = 4096  # of which what follows from them is kept


@dataclass(frozen=True)
class _Call:
    """What follows from the sizes of a call."""

    inputs: tuple[tuple[Argument, tuple[slice, ...] | None], ...]  # None: of the largest sizes
    counts: tuple[np.ndarray, ...]  # numbers that follow from the sizes, then the table, where kernels read one
    outputs: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...]], ...]  # shape; the largest one, and the part of it


@dataclass(eq=False)
class BoundedVariant:
    """An executable for all sizes up to the `largest`. `seconds` is how long it took to compile, None where it came compiled."""

    symbols: tuple[str, ...]
    largest: Sizes
    inputs: tuple[OpenArgument, ...]
    executable: Executable = field(repr=False)
    bounds: Bounds = field(repr=False)
    seconds: float | None = None
    used: int = field(default=0, repr=False)  # when it was called last, as a number that grows from call to call

    def __post_init__(self) -> None:
        self._calls: dict[Sizes, _Call] = {}
        self._free: list[tuple[list[np.ndarray], list[np.ndarray]]] = []
        self._frames = 0

    def serves(self, sizes: Sizes) -> bool:
        """Whether it has code for those sizes."""
        return all(0 < n <= top for n, top in zip(sizes, self.largest))

    def __call__(self, sizes: Sizes, args: Sequence[Any], out: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """The outputs for inputs of those sizes, in new arrays or in `out`, which is checked."""
        call = self._call(sizes)
        try:
            inputs, outputs = self._free.pop()
        except IndexError:
            inputs, outputs = self._new_frame()
        try:
            given = [_placed(x, argument, part, room) for (argument, part), x, room in zip(call.inputs, args, inputs)]
            self.executable(*given, *call.counts, out=outputs if len(outputs) > 1 else outputs[0])
            results = out
            if results is None:
                results = [aligned_empty(o[0], room.dtype, "an output") for o, room in zip(call.outputs, outputs)]
            for result, room, (_, whole, part) in zip(results, outputs, call.outputs):
                there = room.reshape(whole)[part]
                result.reshape(there.shape)[...] = there
            return list(results)
        finally:
            self._free.append((inputs, outputs))

    def profile(self, sizes: Sizes, args: Sequence[Any], rounds: int, threads: int | None) -> Profile:
        """Where the time of a call of those sizes goes."""
        call = self._call(sizes)
        inputs, _ = self._new_frame()
        given = [_placed(x, argument, part, room) for (argument, part), x, room in zip(call.inputs, args, inputs)]
        return self.executable.profile(*given, *call.counts, rounds=rounds, threads=threads)

    def output_shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        """The shapes of the outputs at those sizes."""
        return [shape for shape, _, _ in self._call(sizes).outputs]

    def _call(self, sizes: Sizes) -> _Call:
        found = self._calls.get(sizes)
        if found is None:
            if len(self._calls) >= _MOST_SIZES:
                self._calls.clear()
            found = self._calls[sizes] = self._worked_out(sizes)
        return found

    def _worked_out(self, sizes: Sizes) -> _Call:
        mine, largest = dict(zip(self.symbols, sizes)), dict(zip(self.symbols, self.largest))
        inputs = []
        for a in self.inputs:
            shape = a.at(mine)
            inputs.append((Argument(a.name, shape, a.dtype), None if shape == a.at(largest) else tuple(map(slice, shape))))
        outputs = []
        for dims in self.bounds.outputs:
            digits = [(top, form_value(form, sizes)) for dim in dims for top, form in dim]
            shape = tuple(math.prod(form_value(form, sizes) for _, form in dim) for dim in dims)
            outputs.append((shape, tuple(top for top, _ in digits), tuple(slice(n) for _, n in digits)))
        counts = [np.array([form_value(form, sizes) for form in self.bounds.counts], np.int64)] if self.bounds.counts else []
        numbers = [np.array([number_value(number, sizes)], DTYPES[number[0]]) for number in self.bounds.numbers]
        return _Call(tuple(inputs), (*numbers, *counts), tuple(outputs))

    def _new_frame(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        self._frames += 1
        inputs = [aligned_zeros(a.shape, a.numpy_dtype) for a in self.executable.inputs[: len(self.inputs)]]
        return inputs, [aligned_empty(a.shape, a.numpy_dtype, "an output") for a in self.executable.outputs]

    @property
    def memory(self) -> Memory:
        """What it needs; its arena includes the arrays that inputs and outputs are copied to and from."""
        found = self.executable.memory
        frame = sum(a.bytes for a in (*self.executable.inputs, *self.executable.outputs))
        return Memory(found.arena + frame, found.scratch, found.constants)

    def __str__(self) -> str:
        return f"up to {shown(self.symbols, self.largest)}"

    def __repr__(self) -> str:
        return line(self, str(self))


def _placed(x: Any, argument: Argument, part: tuple[slice, ...] | None, room: np.ndarray) -> np.ndarray:
    """An input as the code reads it."""
    fits = type(x) is np.ndarray and x.dtype == argument.numpy_dtype and x.shape == argument.shape and part is not None
    array = x if fits else accept_input(argument, x)
    if part is None:
        return array
    room[part] = array
    return room
