"""A sequence: its tokens, and the keys and values that each layer keeps of them."""

from __future__ import annotations

from collections.abc import Sequence as Some

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.language.architecture import Architecture
from tensorsmith.runtime.buffers import aligned_empty

SMALLEST = 64  # places of a cache: what a step over fewer would gain is less than the other half of the step takes


def places_for(tokens: int, context: int) -> int:
    """How many places the cache of so many tokens has: a power of two, so that few sizes of step are ever compiled."""
    return min(max(SMALLEST, 1 << (max(tokens, 1) - 1).bit_length()), context)


class Sequence:
    """Tokens that were read, with a cache that grows with them, by doubling.

    state = lm.sequence()
    logits = lm.step([state], [[1, 2, 3]])
    state.rewind(2)  # as if the third token had not been read
    other = state.copy()
    """

    def __init__(self, about: Architecture) -> None:
        self.about = about
        self.tokens: list[int] = []
        self.places = 0
        self.long = False  # whether its keys are turned by the frequencies of long sequences
        self.arrays: list[np.ndarray] = []  # key and value of each layer, (places, key heads, head)

    def __len__(self) -> int:
        return len(self.tokens)

    def grow(self, places: int) -> None:
        """Makes room for so many tokens."""
        if places <= self.places:
            return
        shape = (places, self.about.key_heads, self.about.head)
        used, old = len(self.tokens), self.arrays
        self.arrays = []
        for n in range(2 * self.about.layers):
            new = aligned_empty(shape, np.float32, "the cache of a sequence")
            new[used:] = 0  # what is masked has to be finite
            if used:
                new[:used] = old[n][:used]
            self.arrays.append(new)
        self.places = places

    def append(self, tokens: Some[int], news: Some[np.ndarray]) -> None:
        """Takes in tokens with their keys and values, of which there may be more than tokens."""
        begin, end = len(self.tokens), len(self.tokens) + len(tokens)
        for array, new in zip(self.arrays, news):
            array[begin:end] = new[: len(tokens)]
        self.tokens += tokens

    def rewind(self, length: int) -> None:
        """Forgets all tokens behind the first `length`."""
        if not 0 <= length <= len(self.tokens):
            raise UserError(f"the sequence has {len(self.tokens)} tokens; it cannot be taken back to {length}")
        del self.tokens[length:]

    def copy(self) -> Sequence:
        """Another sequence that begins with the same tokens."""
        other = Sequence(self.about)
        other.grow(self.places)
        for mine, theirs in zip(self.arrays, other.arrays):
            theirs[: len(self)] = mine[: len(self)]
        other.tokens, other.long = list(self.tokens), self.long
        return other

    @property
    def bytes(self) -> int:
        """Of its cache."""
        return sum(a.nbytes for a in self.arrays)
