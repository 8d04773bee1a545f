"""Finals: who is timed again, with whom, and until when. Times are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.measure.small import candidates, matmul
from tests.tuning.fakes import timed

from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Timed, Turns
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import WINNER, Record
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native
from tensorsmith.tuning.finals import final as finals

WORKLOAD, TIMING = matmul(), Timing("warm", 2)


class Entrant:
    """Candidates by a number; `stored` microseconds of each, and the `honest` ones that come out when it is timed again.

    `paused`: microseconds after a pause, where they are others. `build` seconds of each, and the `spread` of what is stored.
    """

    def __init__(
        self,
        stored: dict[int, float],
        honest: dict[int, float | None],
        calls: list[list[int]],
        paused: dict[int, float] | None = None,
        build: float = 0.0,
        spread: float = 0.0,
    ) -> None:
        self.candidates = dict(zip(stored, candidates(WORKLOAD, *stored)))
        self.honest, self.calls, self.paused = honest, calls, paused or {}
        self.measurer = self
        self.turns: list[Turns] = []
        self.store = Store.in_memory()
        trials = [Trial(c, Status.OK, 1e-6 * stored[n], spread, build_seconds=build) for n, c in self.candidates.items()]
        self.keep_final(trials, "")

    def top(self, k: int) -> list[Record]:
        return self.store.top(WORKLOAD, native(), TIMING, k)

    def compare(self, places: Sequence[tuple[Entrant, Candidate]], turns: Turns, stop: Callable[[], bool]) -> list[Timed]:
        if stop():
            return []
        self.turns.append(turns)
        self.calls.append([e.number(c) for e, c in places])
        return [e.result(c, turns) for e, c in places]

    def result(self, candidate: Candidate, turns: Turns) -> Timed:
        number = self.number(candidate)
        time = self.honest[number]
        if time is None:
            return timed(Trial(candidate, Status.CRASHED, cause="SIGSEGV"), (), 0)
        found = timed(Trial(candidate, Status.OK, 1e-6 * time), turns.conditions, turns.least)
        if number in self.paused:
            found.rounds[Condition.PAUSED] = [1e-6 * self.paused[number]] * turns.least
        return found

    def keep_final(self, trials: Sequence[Trial], run: str) -> None:
        self.store.add(WORKLOAD, native(), TIMING, trials, run=run)

    def number(self, candidate: Candidate) -> int:
        return next((n for n, c in self.candidates.items() if c.decisions == candidate.decisions), 0)

    def ranking(self) -> list[int]:
        return [self.number(r.candidate) for r in self.top(9)]


def hold(*entrants: Entrant, default: int, **options) -> finals.Outcome | None:
    """The default schedule is a candidate of the first."""
    first = entrants[0]
    return finals.hold(entrants, (first, candidates(WORKLOAD, default)[0]), **options)


def test_the_winner_is_used_and_the_default_is_in_every_final() -> None:
    calls: list = []
    one = Entrant({1: 10.0, 2: 10.5, 3: 10.9, 4: 12.0}, {1: 10.8, 2: 10.0, 3: 10.7, 4: 11.5}, calls)
    outcome = hold(one, default=4)
    assert calls == [[1, 2, 3, 4]] and one.ranking() == [2, 3, 1, 4]
    assert outcome and not outcome.default_won and one.top(1)[0].run == WINNER


def test_the_default_is_there_though_it_was_never_measured() -> None:
    calls: list = []
    one = Entrant({1: 10.0}, {1: 9.0, 0: 8.0}, calls)
    outcome = hold(one, default=7)
    assert calls == [[1, 0]] and outcome and outcome.default_won
    assert one.ranking() == [0, 1]


def test_who_loses_after_a_pause_stands_behind_the_default_whatever_its_seconds() -> None:
    one = Entrant({1: 5.0, 2: 10.0}, {1: 5.0, 2: 10.0}, [], paused={1: 60.0, 2: 50.0})
    outcome = hold(one, default=2)
    assert outcome and outcome.default_won
    assert one.ranking() == [2, 1] and [round(1e6 * r.seconds) for r in one.top(2)] == [10, 5]  # their own times


def test_what_is_found_afterwards_stands_for_its_seconds() -> None:
    one = Entrant({1: 5.0, 2: 10.0, 3: 99.0}, {1: 5.0, 2: 10.0, 3: 99.0}, [], paused={1: 60.0, 2: 50.0})
    hold(one, default=2)
    one.keep_final([Trial(one.candidates[3], Status.OK, 7e-6)], "")
    assert one.ranking() == [3, 2, 1]
    one.honest[3] = 7.0
    one.paused[3] = 55.0
    hold(one, default=2)
    assert one.ranking() == [2, 1, 3]


def test_a_time_that_is_too_good_to_be_true_does_not_stay() -> None:
    """Nothing is close to it, so it is compared with the second; then others lead that were in no final yet."""
    calls: list = []
    one = Entrant({1: 1.0, 2: 10.0, 3: 10.1, 4: 10.2, 5: 20.0}, {1: 50.0, 2: 11.0, 3: 10.3, 4: 10.4, 5: 20.0}, calls)
    hold(one, default=5)
    assert calls == [[1, 2, 5], [3, 4, 2]]  # the winner of the first is the one to beat
    assert one.ranking() == [3, 4, 2, 5, 1]


def test_who_has_won_is_beaten_by_a_better_one_only() -> None:
    calls: list = []
    one = Entrant({1: 1.0, 2: 10.0, 3: 10.1, 5: 20.0}, {1: 50.0, 2: 11.0, 3: 10.9, 5: 20.0}, calls, paused={3: 60.0})
    outcome = hold(one, default=5)
    assert calls == [[1, 2, 5], [3, 2]] and outcome and not outcome.default_won
    assert one.ranking()[0] == 2  # the other one lost after a pause, against it and not against the default schedule


def test_it_comes_to_an_end() -> None:
    calls: list = []
    one = Entrant({n: float(n) for n in range(1, 30)}, dict.fromkeys(range(1, 30), 100.0), calls)
    hold(one, default=29)
    assert len(calls) == 2
    calls.clear()
    two = Entrant({n: float(n) for n in range(1, 30)}, dict.fromkeys(range(1, 30), 100.0), calls)
    finals.check(two, None)
    assert len(calls) == 3


def test_what_fails_is_out() -> None:
    one = Entrant({1: 10.0, 2: 10.5}, {1: None, 2: 10.5}, [])
    hold(one, default=2)
    assert one.ranking() == [2]


def test_a_final_has_as_much_time_as_there_is() -> None:
    calls: list = []
    one = Entrant({1: 10.0, 2: 10.1, 3: 10.5}, {1: 9.0, 2: 9.5, 3: 10.0}, calls)
    outcome = hold(one, default=3, seconds_left=lambda: 0.1)
    assert outcome and outcome.default_won and not one.turns
    one = Entrant({1: 10.0, 2: 10.1, 3: 10.5}, {1: 9.0, 2: 9.5, 3: 10.0}, calls)
    hold(one, default=3, seconds_left=lambda: 0.5)
    assert one.turns[0].seconds == 0.5 and calls == [[1, 3]]  # for one and the default schedule
    assert hold(one, default=3, stop=lambda: True) is None and len(one.turns) == 1


def test_without_a_final_the_default_stays() -> None:
    """However far ahead another one is in the times of the search: nobody has called it yet."""
    far = Entrant({1: 10.0, 2: 20.0}, {}, [])
    outcome = hold(far, default=2, seconds_left=lambda: 0.0)
    assert outcome and outcome.default_won and far.ranking() == [2, 1]
    unknown = Entrant({1: 10.0}, {}, [])  # the default schedule was not timed
    assert hold(unknown, default=2, seconds_left=lambda: 0.0) is None


def test_where_the_search_is_trusted_the_default_stays_unless_another_is_ahead_by_what_a_win_is_worth() -> None:
    def trusted(one: Entrant) -> finals.Outcome | None:
        return hold(one, default=2, seconds_left=lambda: 0.0, trust_search=True)

    close = Entrant({1: 10.0, 2: 10.2}, {}, [])
    outcome = trusted(close)
    assert outcome and outcome.default_won and close.ranking() == [2, 1]
    far = Entrant({1: 10.0, 2: 10.6}, {}, [])
    assert trusted(far) is None and far.ranking() == [1, 2]
    spread = Entrant({1: 10.0, 2: 11.0}, {}, [], spread=0.08)  # each: 11 % between two of them are not unlikely
    outcome = trusted(spread)
    assert outcome and outcome.default_won and spread.ranking() == [2, 1]
    assert trusted(Entrant({1: 10.0, 2: 12.0}, {}, [], spread=0.08)) is None
    assert trusted(Entrant({1: 10.0}, {}, [])) is None  # the default schedule was not timed


def test_what_a_final_needs_is_room_for_one_and_the_default() -> None:
    for micros in (10.0, 2e3, 2e4, 1e5):
        one = Entrant({1: micros, 2: 1.2 * micros}, {1: micros, 2: 1.2 * micros}, calls := [], build=0.3)
        needed = finals.seconds_needed([one], tuple(Condition))
        hold(one, default=2, seconds_left=lambda needed=needed: 0.9 * needed)
        assert not calls
        hold(one, default=2, seconds_left=lambda needed=needed: needed)
        assert calls == [[1, 2]]
    assert finals.seconds_needed([Entrant({}, {}, [])], tuple(Condition)) == 0.0


def test_without_a_final_the_winner_of_an_earlier_one_stays() -> None:
    one = Entrant({1: 10.0, 2: 10.2}, {}, [])
    one.keep_final([Trial(one.candidates[1], Status.OK, 10.1e-6)], WINNER)
    assert hold(one, default=2, seconds_left=lambda: 0.0) is None and one.ranking() == [1, 2]


def test_slow_programs_have_a_small_final() -> None:
    calls: list = []
    one = Entrant({1: 1e5, 2: 1.01e5, 3: 1.02e5}, {1: 0.9e5, 2: 0.95e5, 3: 1e5}, calls)  # of a tenth of a second
    hold(one, default=3)
    assert calls == [[1, 3]]
    calls.clear()
    two = Entrant({1: 3.3e4, 2: 3.4e4, 3: 4e4}, {1: 3.3e4, 2: 3.4e4, 3: 4e4}, calls)  # of 33 ms
    hold(two, default=3, seconds_left=lambda: 2.4)
    assert not calls
    hold(two, default=3, seconds_left=lambda: 3.0)
    assert calls == [[1, 3]]
    hold(two, default=3)
    assert two.turns[-1].seconds >= 2.2  # as much as it needs


def test_where_time_is_short_builds_count() -> None:
    calls: list = []
    one = Entrant({1: 10.0, 2: 10.1, 3: 10.5}, {1: 9.0, 2: 9.5, 3: 10.0}, calls, build=0.2)
    hold(one, default=3, seconds_left=lambda: 1.0)
    assert calls == [[1, 3]]
    calls.clear()
    hold(Entrant({1: 10.0, 2: 10.1, 3: 10.5}, {1: 9.0, 2: 9.5, 3: 10.0}, calls, build=0.2), default=3)
    assert calls == [[1, 2, 3]]


def test_no_second_final_where_all_are_slower_in_turns_than_alone() -> None:
    """Those that were in none are ahead of all that were only because they were not timed in turns."""
    calls: list = []
    stored = {n: 10.0 + 0.01 * n for n in range(1, 9)} | {9: 10.2}
    one = Entrant(stored, {n: 1.2 * t for n, t in stored.items()}, calls)
    outcome = hold(one, default=9)
    assert len(calls) == 1 and outcome and outcome.default_won


def test_no_second_final_for_less_than_a_win_is_worth() -> None:
    calls: list = []
    one = Entrant({1: 9.0, 2: 9.9, 3: 9.95, 9: 10.0}, {1: 10.0, 2: 10.0, 3: 10.0, 9: 10.0}, calls)
    hold(one, default=9)
    assert calls == [[1, 2, 9]]


def test_formulations_meet_in_one_final() -> None:
    """The best of every group that is close is there, however many of another are ahead of it; who is far behind is not."""
    calls: list = []
    honest = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 5: 9.0, 6: 30.0}
    a = Entrant({1: 9.0, 2: 9.1, 3: 9.2, 4: 9.3}, honest, calls)
    b, c = Entrant({5: 9.5}, honest, calls), Entrant({6: 30.0}, honest, calls)
    outcome = hold(a, b, c, default=1)
    assert calls == [[1, 2, 3, 4, 5]]
    assert outcome and not outcome.default_won and outcome.winner[0] is b and b.top(1)[0].run == WINNER
    assert all(r.run != WINNER for r in a.top(9))


def test_a_check_corrects_times_and_lets_the_winner_be() -> None:
    calls: list = []
    one = Entrant({1: 5.0, 2: 10.0}, {1: 5.0, 2: 10.0}, calls, paused={1: 60.0, 2: 50.0})
    hold(one, default=2)
    one.honest.update({1: 6.0, 2: 11.0})
    finals.check(one, one.candidates[2])
    assert one.ranking() == [2, 1] and [round(1e6 * r.seconds) for r in one.top(2)] == [11, 6]
    assert one.turns[-1].conditions == (Condition.ALONE,)
