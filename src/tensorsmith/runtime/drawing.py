"""Executables that draw random numbers: each call has a number, which its code reads as one more input.

The caller does not see that input. Calls are numbered from 0 on when an executable is made, loaded from a file or unpickled; the
random numbers follow from the model's seed and the number of the call alone (`ops/random.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorsmith.errors import UserError, whole_number
from tensorsmith.runtime import file
from tensorsmith.runtime.arguments import CALL_NUMBER, in_order
from tensorsmith.runtime.executable import Executable, executable
from tensorsmith.runtime.running import Prepared

_NUMBERS = 1 << 32  # of calls, before they begin anew


class Calls:
    """Numbers calls. Several threads may call at once; each call gets a number of its own."""

    def __init__(self, number: int = 0) -> None:
        self._number, self._lock = number, threading.Lock()

    @property
    def number(self) -> int:
        """That of the next call."""
        return self._number

    def restart(self, number: int = 0) -> None:
        """Gives the next call this number: the same random numbers come again."""
        whole = whole_number(number)
        if whole is None or not 0 <= whole < _NUMBERS:
            raise UserError(f"calls have the numbers 0..{_NUMBERS - 1}, not {number!r}")
        with self._lock:
            self._number = whole

    def take(self) -> np.ndarray:
        """The number of a call that begins now, as its code reads it."""
        with self._lock:
            number, self._number = self._number, (self._number + 1) % _NUMBERS
        return np.array(number, np.uint32)


class DrawingExecutable(Executable):
    """Each call draws other random numbers: `calls.number` is that of the next call, `calls.restart()` begins anew.

    `prepare`, `benchmark` and `profile` draw the numbers of call 0 every time, and count nothing.
    """

    def __init__(self, plain: Executable, calls: Calls | None = None) -> None:
        super().__init__(plain.network, plain._loaded)
        self.calls = Calls() if calls is None else calls
        self.inputs, self._input_names = self.inputs[:-1], self._input_names[:-1]

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        args = in_order(self.name, self._input_names, args, named)
        return super().__call__(*args, self.calls.take(), out=out)

    def prepare(self, *args: Any, threads: int | None = None, **named: Any) -> Prepared:
        args = in_order(self.name, self._input_names, args, named)
        return super().prepare(*args, np.array(0, np.uint32), threads=threads)

    def __reduce__(self) -> tuple[Callable[[bytes], Executable], tuple[bytes]]:
        return _unpickled, (file.as_bytes(self.network),)

    def _like(self, executable: Executable) -> Executable:
        return DrawingExecutable(executable, Calls(self.calls.number))


def presented(made: Executable) -> Executable:
    """An executable as it is called: one that draws random numbers numbers its own calls."""
    inputs = made.network.inputs
    return DrawingExecutable(made) if inputs and inputs[-1].name == CALL_NUMBER else made


def _unpickled(data: bytes) -> Executable:
    return presented(executable(file.from_bytes(data)))
