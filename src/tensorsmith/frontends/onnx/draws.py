"""The random numbers of one model: every node that draws has a key of its own, made of the model's seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.runtime.arguments import CALL_NUMBER

_WORD = 1 << 32


@dataclass
class Draws:
    """What the nodes of a graph that is being built draw. The graph gets an input for the number of the call, after its others."""

    seed: int
    builder: Builder
    _keys: set[int] = field(default_factory=set)
    _call: Value | None = None

    def numbers(self, shape: Sequence[int], to: str, distribution: str, own: float | None) -> Value:
        """New random numbers, other than all before; `own` is the seed that a node has in the file."""
        if self._call is None:
            self._call = self.builder.input(CALL_NUMBER, (), "u32")
        key = self._key(own)
        return self.builder.add("draw", [self._call], key=key, shape=tuple(shape), to=to, distribution=distribution)

    def _key(self, own: float | None) -> int:
        """Of 32 bits: no two nodes have the same."""
        text = f"{self.seed} {len(self._keys)} {'' if own is None else float(own).hex()}"
        key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
        while key in self._keys:
            key = (key + 1) % _WORD
        self._keys.add(key)
        return key
