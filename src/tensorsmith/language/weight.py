"""A tensor of a file, in the file's own bytes until somebody wants its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorsmith.lang.dtypes import Array
from tensorsmith.language.blocks import FORMATS, expanded, quantised


@dataclass(frozen=True)
class Weight:
    """`stored` is u8: the shape without its last dimension, then the bytes of a row, in a `format` of `blocks.py`.

    It is a view of the mapped file where nothing had to be put in another order.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    stored: Array

    @staticmethod
    def of(name: str, array: Array) -> Weight:
        """An f32 array."""
        array = np.ascontiguousarray(array, np.float32)
        return Weight(name, array.shape, "f32", array.view(np.uint8).reshape(*array.shape[:-1], -1))

    @property
    def bytes(self) -> int:
        return self.stored.nbytes

    def array(self) -> Array:
        """All of it in f32."""
        return expanded(self.stored.reshape(-1, self.stored.shape[-1]), self.format).reshape(self.shape)

    def rows(self, numbers: Array) -> Array:
        """Some rows of a matrix in f32."""
        return expanded(self.stored[numbers], self.format)

    def part(self, begin: int, end: int, name: str) -> Weight:
        """Rows of a matrix, or elements of a vector."""
        if len(self.shape) == 1:
            return Weight.of(name, self.array()[begin:end])
        return Weight(name, (end - begin, *self.shape[1:]), self.format, self.stored[begin:end])

    def reordered(self, order: Sequence[int]) -> Weight:
        """With its rows (the elements of a vector) in another order."""
        if len(self.shape) == 1:
            return Weight.of(self.name, self.array()[list(order)])
        return replace(self, stored=self.stored[list(order)])

    def transposed(self) -> Weight:
        """Columns as rows, in f32."""
        return Weight.of(self.name, self.array().T)

    def as_format(self, format: str) -> Weight:
        """Stored in another format; in f16 where its rows are no whole number of blocks."""
        if format == self.format:
            return self
        if self.shape[-1] % FORMATS[format].weights:
            return self.as_format("f16")
        rows = quantised(self.array().reshape(-1, self.shape[-1]), format)
        return replace(self, format=format, stored=rows.reshape(*self.shape[:-1], -1))
