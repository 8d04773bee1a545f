"""How far outputs of two systems are from each other, and whether that is rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorsmith.lang.dtypes import Array

_TOLERANCE = 1e-3  # of the largest number of an output: other orders of summation through a whole network


def largest_difference(got: Sequence[Array], want: Sequence[Array]) -> tuple[float, bool]:
    """The largest difference of any two elements, and whether it is no more than rounding."""
    worst, fine = 0.0, len(got) == len(want)
    for g, w in zip(got, want):
        if g.shape != w.shape:
            return math.inf, False
        a, b = g.astype(np.float64), w.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0.0, np.abs(a - b))
        most = float(np.nan_to_num(apart, nan=math.inf).max(initial=0.0))
        size = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
        worst, fine = max(worst, most), fine and most <= _TOLERANCE * size
    return worst, fine
