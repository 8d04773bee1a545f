"""Numbers made smaller where a product is too large: halving whichever is largest, in all rows at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.space.holes.kind import Array, Matrix

ROUNDS = 24  # of halving; more than any size has bits, for the sizes of a tile together


@dataclass(frozen=True)
class Factor:
    """One of the numbers of a product; `column` is the hole that makes it smaller, if any."""

    value: Array
    column: int | None
    least: int = 1  # below which making the column smaller changes nothing


def product(factors: list[Factor], rows: int) -> Array:
    total = np.ones(rows)
    for f in factors:
        total = total * f.value
    return total


def halve_largest(part: Matrix, factors: list[Factor], chosen: Array) -> Array:
    """Halves, in each chosen row, the column of the largest factor; one that counts lanes, to whole vectors. Where it could."""
    changed = np.zeros(len(part), bool)
    if not factors:
        return changed
    values = np.stack([f.value for f in factors])
    largest = values.argmax(axis=0)
    for n, f in enumerate(factors):
        here = chosen & (largest == n) & (values[n] > 1)
        if f.column is not None and here.any():
            part[here, f.column] = np.maximum(f.least, (values[n][here] // 2) * f.least)
            changed |= here
    return changed
