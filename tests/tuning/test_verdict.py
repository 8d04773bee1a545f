"""Who wins against the default schedule. Times are made up."""

from __future__ import annotations

from random import Random

import pytest

from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.job import Rounds
from tensorsmith.tuning.finals.verdict import margin, margins, undecided, winner

ROUNDS = 12


def rounds(back_to_back: float, paused: float, cold: float, noise: float = 0.0, seed: int = 0) -> Rounds:
    rng = Random(seed)
    times = (back_to_back, paused, cold)
    return {c: [t * (1 + rng.uniform(-noise, noise)) for _ in range(ROUNDS)] for c, t in zip(Condition, times)}


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
    uneven = {c: [t * f for f in (1.5, 1 / 1.5) * (ROUNDS // 2)] for c, t in zip(Condition, ahead)}
    assert winner([uneven, DEFAULT], holder=1) == 1
    assert winner([rounds(0.995, 3.98, 1.99), DEFAULT], holder=1) == 1  # below what any two timings differ by


def test_a_win_that_is_worth_little_is_none() -> None:
    """However quiet the rounds are."""
    assert winner([rounds(0.98, 3.92, 1.96), DEFAULT], holder=1) == 1
    assert winner([rounds(0.96, 3.84, 1.92), DEFAULT], holder=1) == 0


def test_a_clear_win_in_all_may_be_within_the_noise_of_one_condition() -> None:
    """As calls after a pause are: ahead of the default, and by less than they vary."""
    quiet, noisy = rounds(0.9, 3.6, 1.8, noise=0.01), rounds(0.9, 3.6, 1.8, noise=0.6, seed=5)
    challenger = {**quiet, Condition.PAUSED: noisy[Condition.PAUSED]}
    back_to_back, paused, cold = margins(challenger, DEFAULT)
    assert back_to_back.won and cold.won and paused.ahead and not paused.won
    assert winner([challenger, DEFAULT], holder=1) == 0


def test_noise_shrinks_with_the_rounds_and_a_disturbed_round_does_not_matter() -> None:
    rng = Random(3)
    few, many = ([1 + rng.uniform(-0.1, 0.1) for _ in range(n)] for n in (8, 200))
    assert margin(few, [1.0] * 8).noise > 2 * margin(many, [1.0] * 200).noise
    disturbed = margin([0.9] * 11 + [50.0], [1.0] * 12)
    assert disturbed.ratio == pytest.approx(0.9) and disturbed.won


def test_equal_programs_hardly_ever_win() -> None:
    pairs = [[rounds(1.0, 4.0, 2.0, noise=0.2, seed=seed) for seed in (2 * n, 2 * n + 1)] for n in range(300)]
    assert sum(winner(pair, holder=1) == 0 for pair in pairs) <= 9


def test_what_failed_cannot_win_and_what_ran_is_better_than_a_default_that_did_not() -> None:
    assert winner([None, DEFAULT], holder=1) == 1
    assert winner([rounds(3.0, 9.0, 9.0), None, rounds(2.0, 9.0, 9.0)], holder=1) == 2
    assert winner([None, None], holder=1) == 1


def test_more_rounds_are_for_those_that_have_not_lost() -> None:
    assert undecided([rounds(0.97, 3.9, 1.95), DEFAULT, rounds(0.9, 4.8, 1.8)], holder=1) == {0, 1}
    assert undecided([rounds(0.9, 4.8, 1.8), DEFAULT], holder=1) == set()
    three = [rounds(r, 4 * r, 2 * r) for r in (0.99, 0.98, 0.97)]
    assert undecided([*three, DEFAULT], holder=3) == {1, 2, 3}  # fewer have more rounds each
    assert undecided([rounds(0.9, 3.6, 1.8), None], holder=1) == set()


def test_no_more_rounds_when_one_has_won_whatever_comes() -> None:
    clear, close = rounds(0.8, 3.2, 1.6, noise=0.02), rounds(0.965, 3.86, 1.93)
    assert undecided([clear, DEFAULT], holder=1) == set() and winner([clear, DEFAULT], holder=1) == 0
    assert undecided([close, DEFAULT], holder=1) == {0, 1}  # a win, but who knows whether it is worth anything
    assert undecided([rounds(0.5, 3.99, 1.0), DEFAULT], holder=1) == {0, 1}  # not by more than the noise after a pause
    assert undecided([rounds(0.8, 3.2, 1.6, noise=0.9), DEFAULT], holder=1) == {0, 1}
