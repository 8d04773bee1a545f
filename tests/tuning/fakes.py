"""A measurer without processes: times come from a function of the trial's number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Timed, Turns
from tensorsmith.measure.times import Times
from tensorsmith.search.policy import POLICIES
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate

#: where the policy that is used by default is found; tests put the cheap one in its place
DEFAULT_POLICY = (POLICIES._built_in, "tensorsmith", "tensorsmith.search.policies.random:PRESET")

PHASE = 8  # trials that are done together


def timed(trial: Trial, conditions: Iterable[Condition], rounds: int) -> Timed:
    """A trial with rounds that are all alike."""
    times = [trial.seconds] * rounds if trial.seconds else []
    return Timed(trial, {condition: list(times) if condition in conditions else [] for condition in Condition})


class FakeMeasurer:
    """`seconds(n)` of the n-th trial; None: it is refused. `after(n)` is called when the n-th trial is done.

    `again(n, candidate)`: what comes out for the n-th of a final.
    """

    def __init__(self, seconds: Callable[[int], float | None], after: Callable[[int], None] = lambda n: None) -> None:
        self.seconds, self.after = seconds, after
        self.again: Callable[[int, Candidate], Trial] = lambda n, c: Trial(c, Status.OK, 1e-6 * (n + 1))
        self.times = Times(1)
        self.measured: list[Candidate] = []
        self.cancelled: list[Candidate] = []
        self.finals: list[list[Candidate]] = []
        self.pending_at_submit: list[int] = []
        self._waiting: list[Candidate] = []
        self._finished: list[Trial] = []

    def prepare(self) -> None:
        pass

    def submit(self, candidates: Sequence[Candidate], incumbent: float | None = None) -> None:
        self.pending_at_submit.append(self.pending)
        self._waiting += candidates

    def results(self, stop: Callable[[], bool]) -> Iterator[Trial]:
        while self._finished or self._waiting:
            while self._finished:
                yield self._finished.pop(0)
            if stop():
                return
            for candidate in self._waiting[:PHASE]:
                number = len(self.measured)
                seconds = self.seconds(number)
                status = Status.OK if seconds else Status.REFUSED
                self._finished.append(Trial(candidate, status, seconds, cause="" if seconds else "too large"))
                self.measured.append(candidate)
                self.after(number)
            del self._waiting[:PHASE]

    @property
    def done(self) -> int:
        return len(self._finished)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def compare(self, places: Sequence[tuple[FakeMeasurer, Candidate]], turns: Turns, stop: Callable[[], bool]) -> list[Timed]:
        if stop():
            return []
        for measurer in {id(m): m for m, _ in places}.values():
            measurer.finals.append([c for m, c in places if m is measurer])
        return [timed(m.again(n, c), turns.conditions, turns.least) for n, (m, c) in enumerate(places)]

    def cancel(self) -> list[Candidate]:
        dropped, self._waiting = self._waiting, []
        self.cancelled += dropped
        return dropped

    def close(self) -> None:
        pass
