"""Finals: who is timed again, with whom, and until when. Times are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.measure.small import candidates, matmul

from tensorsmith.records.keys import Timing
from tensorsmith.records.record import Record
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch import Candidate
from tensorsmith.target import native
from tensorsmith.tuning import finals

WORKLOAD, TIMING = matmul(), Timing("warm", 2)


class Entrant:
    """Candidates by a number; `stored` microseconds of each, and the `honest` ones that come out when it is timed again."""

    def __init__(
        self, stored: dict[int, float], honest: dict[int, float | None], name: str, calls: list[tuple[str, list[int]]]
    ) -> None:
        self.candidates = dict(zip(stored, candidates(WORKLOAD, *stored)))
        self.honest, self.name, self.calls = honest, name, calls
        self.store = Store.in_memory()
        self.keep([Trial(c, Status.OK, 1e-6 * stored[n]) for n, c in self.candidates.items()], "")

    def top(self, k: int) -> list[Record]:
        return self.store.top(WORKLOAD, native(), TIMING, k)

    def time_again(self, candidates: Sequence[Candidate], rounds: int, stop: Callable[[], bool]) -> list[Trial]:
        if stop():
            return []
        numbers = [self.number(c) for c in candidates]
        self.calls.append((self.name, numbers))
        return [self.result(c, self.honest[n]) for n, c in zip(numbers, candidates)]

    def keep_final(self, trials: Sequence[Trial]) -> None:
        self.keep(trials, "finalists")

    def keep(self, trials: Sequence[Trial], run: str) -> None:
        self.store.add(WORKLOAD, native(), TIMING, trials, run=run)

    def number(self, candidate: Candidate) -> int:
        return next(n for n, c in self.candidates.items() if c.decisions == candidate.decisions)

    def result(self, candidate: Candidate, time: float | None) -> Trial:
        return Trial(candidate, Status.OK, 1e-6 * time) if time else Trial(candidate, Status.CRASHED, cause="SIGSEGV")

    def ranking(self) -> list[int]:
        return [self.number(r.candidate) for r in self.top(9)]


def test_the_close_ones_are_timed_again_and_the_last_timing_counts() -> None:
    calls: list = []
    one = Entrant({1: 10.0, 2: 10.5, 3: 10.9, 4: 12.0}, {1: 10.8, 2: 10.6, 3: 10.7}, "a", calls)
    finals.hold([one])
    assert calls == [("a", [1, 2, 3])] and one.ranking() == [2, 3, 1, 4]


def test_a_time_that_is_too_good_to_be_true_does_not_stay() -> None:
    """Nothing is close to it, so it is compared with the second; then others lead that were in no final yet."""
    calls: list = []
    one = Entrant({1: 1.0, 2: 10.0, 3: 10.1, 4: 10.2}, {1: 50.0, 2: 11.0, 3: 10.3, 4: 10.4}, "a", calls)
    finals.hold([one])
    assert calls == [("a", [1, 2]), ("a", [3, 4, 2])]
    assert one.ranking() == [3, 4, 2, 1]


def test_it_comes_to_an_end() -> None:
    calls: list = []
    one = Entrant({n: float(n) for n in range(1, 30)}, dict.fromkeys(range(1, 30), 100.0), "a", calls)
    finals.hold([one])
    assert len(calls) == 3


def test_what_fails_is_out() -> None:
    one = Entrant({1: 10.0, 2: 10.5}, {1: None, 2: 10.5}, "a", [])
    finals.hold([one])
    assert one.ranking() == [2]


def test_others_are_timed_besides_once() -> None:
    calls: list = []
    one = Entrant({1: 1.0, 2: 10.0, 3: 90.0}, {1: 50.0, 2: 51.0, 3: 91.0}, "a", calls)
    finals.hold([one], besides=one.top(3)[2:])
    assert calls == [("a", [1, 2, 3])]


def test_groups_take_turns() -> None:
    """The best of every group that is close is there, however many of another are ahead of it; who is far behind is not."""
    calls: list = []
    honest = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 5: 9.9, 6: 30.0}
    a = Entrant({1: 9.0, 2: 9.1, 3: 9.2, 4: 9.3}, honest, "a", calls)
    b, c = Entrant({5: 9.5}, honest, "b", calls), Entrant({6: 30.0}, honest, "c", calls)
    finals.hold([a, b, c])
    assert calls == [("a", [1, 2, 3, 4]), ("b", [5])] * 4
    assert round(b.top(1)[0].seconds * 1e6, 3) == 9.9 < round(a.top(1)[0].seconds * 1e6, 3)


def test_the_median_over_the_laps_counts() -> None:
    calls: list = []
    a, b = Entrant({1: 9.0}, {1: 10.0}, "a", calls), Entrant({2: 9.1}, {2: 10.0}, "b", calls)
    disturbed = iter([10.0, 90.0, 11.0, 10.4])
    b.result = lambda c, time: Trial(c, Status.OK, 1e-6 * next(disturbed))  # type: ignore[method-assign]
    finals.hold([a, b])
    assert round(b.top(1)[0].seconds * 1e6, 3) == 10.7


def test_stopped_in_a_lap_it_keeps_the_laps_before() -> None:
    calls: list = []
    a, b = Entrant({1: 9.0}, {1: 10.0}, "a", calls), Entrant({2: 9.1}, {2: 11.0}, "b", calls)
    finals.hold([a, b], stop=lambda: len(calls) >= 5)
    assert len(calls) == 5 and [round(x.top(1)[0].seconds * 1e6, 3) for x in (a, b)] == [10.0, 11.0]
    calls.clear()
    c, d = Entrant({1: 9.0}, {1: 10.0}, "a", calls), Entrant({2: 9.1}, {2: 11.0}, "b", calls)
    finals.hold([c, d], stop=lambda: len(calls) >= 1)
    assert len(calls) == 1 and [round(x.top(1)[0].seconds * 1e6, 3) for x in (c, d)] == [9.0, 9.1]
