"""Who has a turn in the next round of a final, until when. Programs are scripted: nothing is timed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest

from tensorsmith.measure.conditions import Condition, deciding
from tensorsmith.measure.contest import Turns
from tensorsmith.measure.fleet import forms
from tensorsmith.measure.job import Rounds
from tensorsmith.tuning.finals import race
from tensorsmith.tuning.finals.verdict import winner

CALLERS = deciding(tuple(Condition))
FIRST, *ELSEWHERE = CALLERS
BEGINNING = [*([Condition.ALONE, FIRST] * race.LEAST_ALONE), *([FIRST] * (race.LEAST - race.LEAST_ALONE))]


@dataclass
class Program:
    """Its seconds under each condition of a caller, and how far a turn may be off, a share of them; its seconds `alone`.
    `fails_at` its turn of that number."""

    seconds: Sequence[float]
    off: Sequence[float] = (0.01, 0.2, 0.05)
    alone: float = 1.0
    fails_at: int | None = None
    turns: list[Condition] = field(default_factory=list)

    def turn(self, condition: Condition, random: Random) -> float:
        self.turns.append(condition)
        if condition is Condition.ALONE:
            return self.alone
        n = CALLERS.index(condition)
        return self.seconds[n] * random.uniform(1 - self.off[n], 1 + self.off[n])

    def count(self, condition: Condition) -> int:
        return self.turns.count(condition)

    @property
    def failed(self) -> bool:
        return self.fails_at is not None and len(self.turns) >= self.fails_at


def times(factor: float) -> tuple[float, ...]:
    return 1.0 * factor, 4.0 * factor, 2.0 * factor


def run(*programs: Program, conditions: Sequence[Condition] = tuple(Condition), seed: int = 0) -> int:
    """A race against the last one, the default schedule; who won."""
    random, holder = Random(seed), len(programs) - 1
    rounds: list[Rounds] = [{c: [] for c in Condition} for _ in programs]

    def running() -> list[Rounds | None]:
        return [None if p.failed else r for p, r in zip(programs, rounds)]

    for _ in range(10 * race.MOST):
        slots = race.next_round(running(), tuple(conditions), holder=holder)
        if not any(slots.values()):
            return winner(running(), holder, conditions)
        for condition, numbers in slots.items():
            assert condition in conditions
            for n in numbers:
                assert not programs[n].failed
                rounds[n][condition].append(programs[n].turn(condition, random))
    raise AssertionError("it does not end")


@pytest.mark.parametrize("factor", [1.0, 0.99, 1.02, 1.5])
def test_who_is_equal_or_behind_back_to_back_is_out_at_once(factor: float) -> None:
    """After the least rounds, and without a single pause."""
    challenger, default = Program(times(factor)), Program(times(1.0))
    assert run(challenger, default) == 1
    assert challenger.turns == default.turns == BEGINNING


def test_a_clear_win_takes_the_least_rounds_everywhere() -> None:
    challenger, default = Program(times(0.5)), Program(times(1.0))
    assert run(challenger, default) == 0
    for condition in ELSEWHERE:
        assert challenger.count(condition) == default.count(condition) == race.LEAST_ELSEWHERE


def test_only_the_first_two_go_on_and_nobody_who_is_clearly_behind_the_first() -> None:
    close = [Program(times(factor)) for factor in (0.901, 0.9, 0.902, 0.9)]
    assert run(*close, Program(times(1.0))) < 4
    assert sorted(p.count(FIRST) > race.LEAST for p in close) == [False, False, True, True]
    behind, first = Program(times(0.9)), Program(times(0.8))
    assert run(behind, first, Program(times(1.0))) == 1
    assert behind.turns == BEGINNING


def test_who_has_dropped_out_stays_out() -> None:
    """Its rounds would be compared with rounds of others that it was not in."""
    default = {c: [1.0] * 20 for c in Condition}
    dropped: Rounds = {**{c: [] for c in Condition}, Condition.ALONE: [0.5] * race.LEAST, FIRST: [0.5] * race.LEAST}
    assert race.next_round([dropped, default], tuple(Condition), holder=1) == {}


def test_more_rounds_where_it_is_not_sure_and_not_for_ever() -> None:
    unsure, default = Program(times(0.955), off=(0.09, 0.2, 0.05)), Program(times(1.0), off=(0.09, 0.2, 0.05))
    run(unsure, default)
    assert race.LEAST < unsure.count(FIRST) <= race.MOST + race.MOST_ELSEWHERE
    many = [0.9 * f for f in (1.3, 1 / 1.3) * (race.MOST // 2)]
    uneven: Rounds = {**{c: [] for c in Condition}, Condition.ALONE: many, FIRST: many}
    default_ = {c: [1.0] * race.MOST for c in Condition}
    assert race.next_round([uneven, default_], tuple(Condition), holder=1) == {}
    earlier = [{c: times[: race.MOST - 2] for c, times in r.items()} for r in (uneven, default_)]
    assert race.next_round(earlier, tuple(Condition), holder=1) == {FIRST: {0, 1}}


def test_who_loses_under_another_condition_makes_way_for_the_second() -> None:
    slow_to_wake, second = Program((0.5, 8.0, 1.0)), Program(times(0.501))
    assert run(slow_to_wake, second, Program(times(1.0))) == 1
    assert slow_to_wake.count(Condition.PAUSED) == race.LEAST_ELSEWHERE


def test_a_step_of_a_network_is_only_timed_alone() -> None:
    challenger = Program((99.0, 99.0, 99.0), alone=0.5)
    assert run(challenger, Program(times(1.0)), conditions=(Condition.ALONE,)) == 0
    assert challenger.turns == [Condition.ALONE] * race.LEAST


@pytest.mark.parametrize("called, wins", [(1.3, False), (1.0, False), (0.9, True)])
def test_what_a_kernel_takes_alone_decides_nothing_where_it_is_called(called: float, wins: bool) -> None:
    """Twice as fast alone, and as it is called slower, equal, or faster; and the other way round."""
    assert (run(Program(times(called), alone=0.5), Program(times(1.0))) == 0) is wins
    assert (run(Program(times(called), alone=2.0), Program(times(1.0))) == 0) is wins


def test_what_fails_on_the_way_is_passed_over() -> None:
    bad, good = Program(times(0.5), fails_at=len(BEGINNING) + 3), Program(times(0.501))
    assert run(bad, good, Program(times(1.0))) == 1
    default = Program(times(1.0), fails_at=4)
    assert run(good := Program(times(0.8)), default) == 0 and good.count(FIRST) == race.LEAST
    assert run(Program(times(1.0), fails_at=0), Program(times(1.0), fails_at=0)) == 1


def test_equal_programs_hardly_ever_win_and_better_ones_mostly_do() -> None:
    """Four at a time, as in a final, with turns as uneven as on a machine that others use."""
    off = (0.1, 0.4, 0.15)

    def wins(factor: float) -> int:
        fields = [[Program(times(factor), off) for _ in range(4)] for _ in range(200)]
        return sum(run(*four, Program(times(1.0), off), seed=n) != 4 for n, four in enumerate(fields))

    assert wins(1.0) == 0
    assert wins(0.85) > 190


def test_a_node_of_a_fleet_holds_the_same_race() -> None:
    turns = Turns(partial(race.next_round, holder=1), tuple(Condition), 2.0, race.LEAST)
    sent = forms.turns_of_form(json.loads(json.dumps(forms.turns_to_form(turns))))
    assert (sent.conditions, sent.seconds, sent.least) == (turns.conditions, turns.seconds, turns.least)
    default, ahead = ({c: [f] * race.LEAST for c in Condition} for f in (1.0, 0.9))
    for rounds in ([ahead, default], [default, default], [None, default]):
        assert sent.next_round(rounds, sent.conditions) == turns.next_round(rounds, turns.conditions)
