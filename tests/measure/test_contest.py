"""Whose turn it is in a contest, and when it is over. Nothing is timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.measure.small import LIMITS, candidates, matmul

from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Contest, Turns
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
    seen = run(Contest(jobs(4), Turns(10, 10)))
    assert Counter(seen) == {(n, c): 10 for n in range(4) for c in Condition}
    orders = {tuple(n for n, _ in seen[k : k + 4]) for k in range(0, len(seen), 4)}
    assert len(orders) > 5


def test_no_round_begins_that_would_end_too_late() -> None:
    clock = Clock()

    def turn(job: Job, condition: Condition) -> None:
        clock.now += 1.0

    assert len(run(Contest(jobs(2), Turns(2, 99, (Condition.PAUSED,), 9.0, clock=clock)), turn)) == 2 * 4
    clock.now = 0.0
    assert len(run(Contest(jobs(2), Turns(3, 99, (Condition.PAUSED,), 1.0, clock=clock)), turn)) == 2 * 3  # the least it needs


def test_those_that_cannot_win_have_no_more_turns() -> None:
    turns = Turns(2, 5, (Condition.BACK_TO_BACK,), worth_it=lambda rounds: {0, 2})
    seen = run(Contest(jobs(3), turns))
    assert Counter(n for n, _ in seen) == {0: 5, 1: 2, 2: 5}
    assert len(run(Contest(jobs(3), Turns(2, 5, (Condition.COLD,), worth_it=lambda rounds: set())))) == 3 * 2


def test_it_is_over_when_the_process_dies() -> None:
    """Those left go back to the queue; whoever held the contest begins again."""
    mine = jobs(3)

    def turn(job: Job, condition: Condition) -> None:
        for one in mine:
            one.step = JobState.WAITING

    assert len(run(Contest(mine, Turns(4, 9)), turn)) <= 3 * len(Condition)
