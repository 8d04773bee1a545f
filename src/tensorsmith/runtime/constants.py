"""Constants that several networks have in common: those of equal content are in memory once, as long as a network has them."""

from __future__ import annotations

import hashlib
import threading
import weakref

import numpy as np

from tensorsmith.runtime.buffers import aligned_copy, as_bytes

Content = tuple[int, bytes]  # bytes, and their SHA-256


def content(array: np.ndarray) -> Content:
    """What makes two C-contiguous arrays the same memory."""
    return array.nbytes, hashlib.sha256(as_bytes(array)).digest()


class Constants:
    """Aligned arrays by content; it holds on to none of them."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[Content, np.ndarray] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def kept(self, array: np.ndarray, key: Content) -> np.ndarray:
        """An array of that content, 64-byte aligned: the one that is there, else a copy of this one."""
        with self._lock:
            found = self._known.get(key)
        if found is not None:
            return found
        made = aligned_copy(array)
        with self._lock:
            return self._known.setdefault(key, made)
