"""Which programs were asked for or measured: a search never measures one twice, whatever sketch or row it comes by."""

from __future__ import annotations

from tensorsmith.space.population.embed import Programs
from tensorsmith.space.sketch.sketch import Candidate


class Seen:
    """Programs of one workload that need not be asked for again."""

    def __init__(self) -> None:
        self._programs = Programs()
        self._keys: set[int] = set()

    def take(self, candidate: Candidate) -> bool:
        """Whether the program of a candidate is new; from now on it is not."""
        key = self._programs.key(candidate)
        new = key not in self._keys
        self._keys.add(key)
        return new
