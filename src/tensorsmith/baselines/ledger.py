"""Programs of one workload that a policy asked for or was told of, and what they took: by program, whatever candidate it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensorsmith.lang.workload import Workload
from tensorsmith.search.trial import Trial
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.sketch.sketch import Candidate


class Told(NamedTuple):
    """What a trial says: its program, and the seconds that this took, None if it failed."""

    candidate: Candidate
    program: int
    seconds: float | None


class Ledger:
    """What a search never asks for again, and its best time."""

    def __init__(self, workload: Workload) -> None:
        self._key = workload.key
        self._programs = Programs()
        self.seen: set[int] = set()
        self.seconds: dict[int, float | None] = {}  # by program: the last that was told

    def program(self, candidate: Candidate) -> int:
        """Equal for candidates of the same program."""
        return self._programs.key(candidate)

    def take(self, candidate: Candidate) -> bool:
        """Whether a program is new; from now on it is not."""
        program = self.program(candidate)
        new = program not in self.seen
        self.seen.add(program)
        return new

    def tell(self, trials: Sequence[Trial]) -> list[Told]:
        """Notes trials, and gives those of this workload."""
        found = []
        for trial in trials:
            if trial.candidate.sketch.workload.key == self._key:
                told = Told(trial.candidate, self.program(trial.candidate), trial.seconds if trial.ok else None)
                self.seen.add(told.program)
                self.seconds[told.program] = told.seconds
                found.append(told)
        return found

    @property
    def best_seconds(self) -> float | None:
        """The least time told so far."""
        return min((s for s in self.seconds.values() if s is not None), default=None)
