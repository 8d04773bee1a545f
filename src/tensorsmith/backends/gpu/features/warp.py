"""What one access of a warp costs: wavefronts of shared memory, sectors of device memory. Many accesses at once.

An access is given by where each lane's begins, `[accesses, lanes]`, and which lanes take part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

WORD = 4  # bytes that a bank gives in a cycle


def lanes_of(threads: Array, warp: int) -> Array:
    """Which lanes of a block's first warp there are, `[accesses, lanes]`."""
    return np.arange(warp)[None, :] < np.asarray(threads)[:, None]


def wavefronts(start: Array, there: Array, size: Array, banks: int = 32) -> Array:
    """How many cycles shared memory needs: the different words in the fullest bank. `start` and `size` of a lane's piece are in
    bytes.

    Lanes that want the same word get it together; a lane's piece of several words is wanted at once.
    """
    found = np.empty(len(start), np.int64)
    size = np.broadcast_to(np.asarray(size), len(start))
    words = np.maximum(1, -(-size // WORD))
    for width in np.unique(words):
        rows = np.flatnonzero(words == width)
        first = _present(start[rows] // WORD, there[rows])
        found[rows] = _fullest((first[:, :, None] + np.arange(width)).reshape(len(rows), -1), banks)
    return found


def sectors(start: Array, there: Array, size: Array, sector: int = 32) -> Array:
    """How many different sectors the lanes' pieces of so many bytes lie in. Pieces are no longer than a sector."""
    size = np.broadcast_to(np.asarray(size), len(start))
    first = _present(start, there)
    touched = np.concatenate([first // sector, (first + size[:, None] - 1) // sector], axis=1)
    touched.sort(axis=1)
    return 1 + (touched[:, 1:] != touched[:, :-1]).sum(axis=1)


def _present(start: Array, there: Array) -> Array:
    """Lanes that take no part do as the first one does, which changes nothing."""
    return np.where(there, start, start[:, :1])


def _fullest(words: Array, banks: int) -> Array:
    """The most different words that fall into one bank, by row."""
    words.sort(axis=1)
    new = np.ones(words.shape, bool)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    at = words % banks + np.arange(len(words))[:, None] * banks
    return np.bincount(at[new], minlength=len(words) * banks).reshape(len(words), banks).max(axis=1)
