"""Which bounded variant serves a call, and which are compiled: few, for a range of sizes each.

A range ends at 1, 8, 32, 128 and so on. A variant for a larger range has code for smaller sizes as well, only with larger tiles and
strides, so one that is there already serves them as long as it is not much larger.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tensorsmith.errors import UserError, whole_number
from tensorsmith.runtime.variants.bounded import BoundedVariant
from tensorsmith.runtime.variants.symbols import OpenArgument, Sizes

if TYPE_CHECKING:
    from tensorsmith.runtime.variants.executable import Maker

MEMORY = 1 << 30  # bytes that bounded variants may have for the values of calls; the one that was compiled last always stays

_SMALLEST, _APART = 8, 4  # where the second range ends, and how many times as far the next
_MUCH_LARGER = 128  # times the work at the largest sizes: beyond that a variant leaves threads idle, and its tiles mostly empty
_MOST_SHAPES = 4096  # calls that are found without working out their sizes

Shapes = tuple[tuple[int, ...], ...]  # of the inputs


def top(n: int) -> int:
    """Where the range of a size ends."""
    end = 1 if n <= 1 else _SMALLEST
    while end < n:
        end *= _APART
    return end


class Ranges:
    """The bounded variants of an executable."""

    def __init__(self, name: str, inputs: Sequence[OpenArgument], maker: Maker | None, memory: int) -> None:
        if (whole_number(memory) or 0) < 1:
            raise UserError(f"memory is {memory!r}; give how many bytes variants may have for the values of calls, at least 1")
        self.name, self.inputs, self.memory = name, tuple(inputs), memory
        self.maker = maker
        self.why_not = "" if maker is not None else "they are not asked for"  # why there are none; "": there may be
        self._variants: dict[Sizes, BoundedVariant] = {}
        self._by_shapes: dict[Shapes, tuple[Sizes, BoundedVariant]] = {}
        self._lock = threading.Lock()
        self._clock = itertools.count(1)

    def __iter__(self) -> Iterator[BoundedVariant]:
        return iter([self._variants[key] for key in sorted(self._variants)])

    def __len__(self) -> int:
        return len(self._variants)

    def known(self, shapes: Shapes) -> tuple[Sizes, BoundedVariant] | None:
        """The sizes of a call that was served before, and what served it."""
        found = self._by_shapes.get(shapes)
        if found is not None:
            found[1].used = next(self._clock)
        return found

    def remember(self, shapes: Shapes, sizes: Sizes, variant: BoundedVariant) -> None:
        """A call that will be `known`."""
        with self._lock:
            if len(self._by_shapes) >= _MOST_SHAPES:
                self._by_shapes.clear()
            if self._variants.get(variant.largest) is variant:
                self._by_shapes[shapes] = sizes, variant

    def find(self, sizes: Sizes, compiling: threading.Lock) -> BoundedVariant | None:
        """The variant that serves those sizes, compiled now if there is none; None where a range of sizes is not one network."""
        found = self._there(sizes)
        if found is not None or self.why_not or 0 in sizes:
            return found
        with compiling:
            found = self._there(sizes)  # somebody else may have compiled it meanwhile
            return self._compiled(sizes) if found is None and not self.why_not else found

    def add(self, variant: BoundedVariant) -> None:
        """A variant that is compiled; those that were used longest ago go, if together they have too much memory."""
        with self._lock:
            self._variants[variant.largest] = variant
            variant.used = next(self._clock)
            others = sorted((v for v in self._variants.values() if v is not variant), key=lambda v: v.used)
            total = sum(_bytes(v) for v in self._variants.values())
            for old in others:
                if total <= self.memory or self.maker is None:  # what came from a file cannot be made again
                    break
                total -= _bytes(old)
                del self._variants[old.largest]
            self._by_shapes.clear()

    def _there(self, sizes: Sizes) -> BoundedVariant | None:
        work = _MUCH_LARGER * math.prod(sizes)
        with self._lock:
            serving = [v for v in self._variants.values() if v.serves(sizes)]
            if self.maker is not None and not self.why_not:
                serving = [v for v in serving if math.prod(v.largest) <= work or v.largest == tuple(map(top, sizes))]
            if not serving:
                return None
            found = min(serving, key=lambda v: math.prod(v.largest))
            found.used = next(self._clock)
            return found

    def _compiled(self, sizes: Sizes) -> BoundedVariant | None:
        assert self.maker is not None
        if all(n == 1 for n in sizes):  # nothing is open in a range that ends there
            return None
        for largest in dict.fromkeys((tuple(map(top, sizes)), tuple(1 << (n - 1).bit_length() for n in sizes), sizes)):
            begun = time.perf_counter()
            try:
                made = self.maker.bounded(largest)
            except UserError:  # there is no network of sizes that large: a table of positions ends before
                continue
            if isinstance(made, str):
                self.why_not = made
                return None
            made.seconds = time.perf_counter() - begun
            self.add(made)
            return made
        return None


def _bytes(variant: BoundedVariant) -> int:
    found = variant.memory
    return found.arena + found.scratch
