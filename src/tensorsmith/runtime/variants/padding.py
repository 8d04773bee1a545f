"""A call served by the code of larger sizes: inputs are filled up, results cut.

Who proves that the results are the same is `graph/prefix.py`; here is only the copying. What the inputs are filled with does not
matter to what is kept: zeros, because as indices they are always in range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.buffers import aligned_empty, aligned_zeros
from tensorsmith.runtime.variants.symbols import Sizes


def filled(array: np.ndarray, argument: Argument) -> np.ndarray:
    """An array in the corner of a larger one, with zeros around it; itself if it has that shape already."""
    if array.shape == argument.shape:
        return array
    made = aligned_zeros(argument.shape, argument.numpy_dtype)
    made[_corner(array.shape)] = array
    return made


def cut(result: np.ndarray, shape: tuple[int, ...], out: np.ndarray | None = None) -> np.ndarray:
    """The corner of a result, in memory of its own, or in `out`."""
    if out is None:
        out = aligned_empty(shape, result.dtype, "an output")
    out[...] = result[_corner(shape)]
    return out


def larger(wanted: Sizes, there: Iterable[Sizes]) -> list[Sizes]:
    """Those that are at least as large in every symbol, the least work first."""
    return sorted((s for s in there if s != wanted and all(a <= b for a, b in zip(wanted, s))), key=_elements)


def _elements(sizes: Sequence[int]) -> int:
    return int(np.prod(np.array(sizes, dtype=object)))


def _corner(shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(n) for n in shape)
