"""While a graph is made, nothing of it is garbage.

Python's collector looks through all objects again and again while many are made: a quarter of the time that a network of thousands
of nodes takes until its kernels are known.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector, which is as it was afterwards. What is not in a circle is freed as ever."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
