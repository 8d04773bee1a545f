"""Who wins against the default schedule. Times are made up."""

from __future__ import annotations

from random import Random

import pytest

from tensorsmith.measure.conditions import Condition, deciding
from tensorsmith.measure.job import Rounds
from tensorsmith.tuning.finals.verdict import margin, margins, winner

ROUNDS = 12
CALLERS = deciding(tuple(Condition))


def rounds(back_to_back: float, paused: float, cold: float, noise: float = 0.0, seed: int = 0) -> Rounds:
    rng = Random(seed)
    times = (back_to_back, paused, cold)
    return {c: [t * (1 + rng.uniform(-noise, noise)) for _ in range(ROUNDS)] for c, t in zip(CALLERS, times)}


DEFAULT = rounds(1.0, 4.0, 2.0)


def test_whoever_wins_under_all_conditions_replaces_the_default() -> None:
    assert winner([rounds(0.9, 3.6, 1.8), DEFAULT], holder=1) == 0


@pytest.mark.parametrize("times", [(0.5, 4.4, 1.0), (0.5, 2.0, 2.2), (1.1, 2.0, 1.0), (0.5, 4.0, 1.0)])
def test_whoever_does_not_win_under_one_condition_does_not(times: tuple[float, float, float]) -> None:
    assert winner([rounds(*times), DEFAULT], holder=1) == 1


def test_the_one_that_is_ahead_by_most_wins() -> None:
    assert winner([rounds(0.9, 3.6, 1.8), DEFAULT, rounds(0.8, 3.5, 1.7), rounds(0.5, 4.4, 1.0)], holder=1) == 2


def test_a_win_within_the_noise_is_none() -> None:
    """The same 4 %, once in quiet rounds, once in rounds that differ by far more."""
    ahead = (0.96, 3.84, 1.92)
    assert winner([rounds(*ahead, noise=0.01, seed=1), DEFAULT], holder=1) == 0
    uneven = {c: [t * f for f in (1.5, 1 / 1.5) * (ROUNDS // 2)] for c, t in zip(CALLERS, ahead)}
    assert winner([uneven, DEFAULT], holder=1) == 1
    assert winner([rounds(0.995, 3.98, 1.99), DEFAULT], holder=1) == 1  # below what any two timings differ by


def test_a_win_that_is_worth_little_is_none() -> None:
    """However quiet the rounds are."""
    assert winner([rounds(0.98, 3.92, 1.96), DEFAULT], holder=1) == 1
    assert winner([rounds(0.96, 3.84, 1.92), DEFAULT], holder=1) == 0


def test_a_clear_win_back_to_back_may_be_within_the_noise_of_another_condition() -> None:
    """As calls after a pause are: ahead of the default, and by less than they vary."""
    quiet, noisy = rounds(0.9, 3.6, 1.8, noise=0.01), rounds(0.9, 3.6, 1.8, noise=0.6, seed=5)
    challenger = {**quiet, Condition.PAUSED: noisy[Condition.PAUSED]}
    found = margins(challenger, DEFAULT)
    assert found[Condition.BACK_TO_BACK].sure and found[Condition.COLD].sure
    assert found[Condition.PAUSED].ahead and not found[Condition.PAUSED].sure
    assert winner([challenger, DEFAULT], holder=1) == 0


def test_no_win_elsewhere_makes_up_for_what_is_not_there_back_to_back() -> None:
    """A later contest is one of calls back to back: who is ahead of the default schedule by half after a pause, and equal to it
    there, has won nothing."""
    assert winner([rounds(0.98, 2.0, 1.0), DEFAULT], holder=1) == 1
    unsure = rounds(0.96, 2.0, 1.0, noise=0.15, seed=4)
    assert margins(unsure, DEFAULT)[Condition.BACK_TO_BACK].ratio < 0.97
    assert winner([unsure, DEFAULT], holder=1) == 1


def test_a_win_is_sure_by_three_standard_errors() -> None:
    """The luckiest of several equal programs is often ahead by two."""
    times = [0.955 * f for f in (1.05, 1 / 1.05) * 8]
    found = margin(times, [1.0] * 16)
    assert 2 * (found.noise / 2) < 1 - found.ratio < 3 * (found.noise / 2) and not found.sure
    assert margin(times * 3, [1.0] * 48).sure


def test_who_is_only_disturbed_less_has_not_won() -> None:
    """Every second round is one beside others. The default schedule's best one is the shorter one, or not."""
    default = {**DEFAULT, Condition.BACK_TO_BACK: [1.0, 2.0, 2.0, 2.0] * 12}
    less, better = ({**rounds(1.0, 3.0, 1.0), Condition.BACK_TO_BACK: [good, 1.6, 1.6, 1.6] * 12} for good in (1.01, 0.99))
    assert winner([less, default], holder=1) == 1
    assert winner([better, default], holder=1) == 0


def test_who_was_not_timed_under_all_conditions_has_not_won() -> None:
    alone = {**rounds(0.5, 2.0, 1.0), Condition.COLD: []}
    assert winner([alone, DEFAULT], holder=1) == 1
    assert winner([alone, DEFAULT], holder=1, conditions=(Condition.BACK_TO_BACK,)) == 0


def test_a_kernel_that_is_faster_alone_has_not_won() -> None:
    """Nobody calls it so; only a step of a network is judged by it."""
    alone = {Condition.ALONE: [0.5] * ROUNDS}
    default = {Condition.ALONE: [1.0] * ROUNDS, **DEFAULT}
    assert winner([{**alone, **rounds(1.3, 5.0, 2.5)}, default], holder=1) == 1
    assert winner([{**alone, **rounds(1.0, 4.0, 2.0)}, default], holder=1) == 1
    assert winner([{**alone, **rounds(1.3, 5.0, 2.5)}, default], holder=1, conditions=(Condition.ALONE,)) == 0
    slower_alone = {Condition.ALONE: [2.0] * ROUNDS, **rounds(0.9, 3.6, 1.8)}
    assert winner([slower_alone, default], holder=1) == 0


def test_noise_shrinks_with_the_rounds_and_a_disturbed_round_does_not_matter() -> None:
    rng = Random(3)
    few, many = ([1 + rng.uniform(-0.1, 0.1) for _ in range(n)] for n in (8, 200))
    assert margin(few, [1.0] * 8).noise > 2 * margin(many, [1.0] * 200).noise
    disturbed = margin([0.9] * 11 + [50.0], [1.0] * 12)
    assert disturbed.ratio == pytest.approx(0.9) and disturbed.sure


def test_equal_programs_hardly_ever_win() -> None:
    pairs = [[rounds(1.0, 4.0, 2.0, noise=0.2, seed=seed) for seed in (2 * n, 2 * n + 1)] for n in range(300)]
    assert sum(winner(pair, holder=1) == 0 for pair in pairs) <= 3


def test_what_failed_cannot_win_and_what_ran_is_better_than_a_default_that_did_not() -> None:
    assert winner([None, DEFAULT], holder=1) == 1
    assert winner([rounds(3.0, 9.0, 9.0), None, rounds(2.0, 9.0, 9.0)], holder=1) == 2
    assert winner([None, None], holder=1) == 1
