"""Whose turn it is in a contest, and when it is over. Nothing is timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.measure.small import LIMITS, candidates, matmul

from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Contest, Turns, evenly
from tensorsmith.measure.job import Job, JobState
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.times import Times

WORKLOAD = matmul()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def jobs(count: int) -> list[Job]:
    subject = Subject(LIMITS, Times(1), 0)
    found = [Job(n, subject, c) for n, c in enumerate(candidates(WORKLOAD, *range(1, count + 1)))]
    for job in found:
        job.step = JobState.BUILT
    return found


def run(contest: Contest, turn: Callable[[Job, Condition], None] = lambda job, condition: None) -> list[tuple[int, Condition]]:
    """Whose turn it was."""
    seen = []
    for job, condition in contest.turns():
        job.rounds[condition].append(1.0)
        turn(job, condition)
        seen.append((job.number, condition))
    return seen


def test_all_have_their_turn_in_every_round_in_changing_order() -> None:
    seen = run(Contest(jobs(4), Turns.even(10)))
    assert Counter(seen) == {(n, c): 10 for n in range(4) for c in Condition}
    orders = {tuple(n for n, _ in seen[k : k + 4]) for k in range(0, len(seen), 4)}
    assert len(orders) > 5


def test_no_round_begins_that_would_end_too_late() -> None:
    clock = Clock()

    def turn(job: Job, condition: Condition) -> None:
        clock.now += 1.0

    everybody = partial(evenly, most=99)
    turns = Turns(everybody, (Condition.PAUSED,), 9.0, least=2, clock=clock)
    assert len(run(Contest(jobs(2), turns), turn)) == 2 * 4
    clock.now = 0.0
    turns = Turns(everybody, (Condition.PAUSED,), 1.0, least=3, clock=clock)
    assert len(run(Contest(jobs(2), turns), turn)) == 2 * 3  # the least it needs


def test_a_round_is_expected_to_take_what_its_turns_took_under_their_conditions() -> None:
    """A long round after short ones, and short ones after that: the last round says nothing of the next."""
    clock = Clock()
    seconds = {Condition.BACK_TO_BACK: 0.1, Condition.PAUSED: 4.0}
    order = [{Condition.BACK_TO_BACK: {0, 1}}, {Condition.PAUSED: {0, 1}}, *([{Condition.BACK_TO_BACK: {0, 1}}] * 9)]

    def turn(job: Job, condition: Condition) -> None:
        clock.now += seconds[condition]

    def next_round(rounds, conditions):
        return order.pop(0)

    seen = run(Contest(jobs(2), Turns(next_round, tuple(seconds), 9.1, clock=clock)), turn)
    assert Counter(c for _, c in seen) == {Condition.BACK_TO_BACK: 2 * 5, Condition.PAUSED: 2}


def test_whoever_is_named_has_a_turn_and_it_is_over_when_nobody_is() -> None:
    def next_round(rounds, conditions):
        done = len(rounds[0][Condition.BACK_TO_BACK])
        if done < 2:
            return {Condition.BACK_TO_BACK: {0, 1, 2}}
        return {Condition.BACK_TO_BACK: {0, 2}, Condition.COLD: {0}} if done < 5 else {Condition.COLD: set()}

    seen = run(Contest(jobs(3), Turns(next_round)))
    assert Counter(n for n, c in seen if c is Condition.BACK_TO_BACK) == {0: 5, 1: 2, 2: 5}
    assert Counter(n for n, c in seen if c is not Condition.BACK_TO_BACK) == {0: 3}


def test_who_failed_has_no_more_turns() -> None:
    mine = jobs(3)

    def turn(job: Job, condition: Condition) -> None:
        mine[1].step = JobState.DONE

    assert Counter(n for n, _ in run(Contest(mine, Turns.even(4, (Condition.COLD,))), turn))[1] <= 1


def test_it_is_over_when_the_process_dies() -> None:
    """Those left go back to the queue; whoever held the contest begins again."""
    mine = jobs(3)

    def turn(job: Job, condition: Condition) -> None:
        for one in mine:
            one.step = JobState.WAITING

    assert len(run(Contest(mine, Turns.even(9)), turn)) == 1
