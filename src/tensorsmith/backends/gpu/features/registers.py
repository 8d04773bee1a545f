"""Registers that a thread gets besides those for its results: what compilers do, in a few numbers. `benchmarks/gpu.py` compares."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

OTHER_REGISTERS = 28  # of a thread: addresses, counters, what is under way
SUMMING_REGISTERS = 14  # the same where threads reduce, and fetch nothing together
PLAIN_REGISTERS = 9  # where they do not reduce either
LOADED_AHEAD = 24  # registers that compilers fill with operands of steps to come

SPILLED_EACH = 2.5  # results in memory for each register that is missing


def operand_registers(operands: Array, rows: Array) -> Array:
    """Registers for operands of a step, where compilers load for several steps that are laid out in a row, but not for all."""
    found: Array = np.minimum(operands * rows, operands + LOADED_AHEAD)
    return found


def spilled_share(results: Array, other: Array, most: Array) -> Array:
    """Share of the results that are kept in memory. For each register that is missing a compiler spills more than one: operands
    that were loaded ahead are in the way, too."""
    over = np.maximum(0.0, results + other - most)
    return np.minimum(1.0, SPILLED_EACH * over / np.maximum(1, results))
