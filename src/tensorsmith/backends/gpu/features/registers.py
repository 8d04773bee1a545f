"""Registers that a thread gets besides those for its results: what compilers do, in a few numbers. `benchmarks/gpu.py` compares."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

OTHER_REGISTERS = 28  # of a thread: addresses, counters, what is under way
SUMMING_REGISTERS = 14  # the same where threads reduce, and fetch nothing together
PLAIN_REGISTERS = 9  # where they do not reduce either
LOADED_AHEAD = 24  # registers that compilers fill with operands of steps to come


def operand_registers(operands: Array, rows: Array) -> Array:
    """Registers for operands of a step, where compilers load for several steps that are laid out in a row, but not for all."""
    found: Array = np.minimum(operands * rows, operands + LOADED_AHEAD)
    return found
