"""Rounds on a clock of our own: nothing here depends on the machine."""

from __future__ import annotations

import pytest

from tensorsmith.measure.limits import Limits
from tensorsmith.measure.timing import Plan, in_turns, summary, time_rounds


class Kernel:
    """Takes `seconds` a run, the first run `first`."""

    def __init__(self, seconds: float, first: float | None = None) -> None:
        self.seconds, self.first, self.counts = seconds, first, []

    def __call__(self, count: int) -> float:
        self.counts.append(count)
        return self.first if self.first and len(self.counts) == 1 else self.seconds


PLAN = Plan(rounds=5, round_seconds=1e-3, timing_seconds=20e-3, most_seconds=0.5)


def test_a_short_kernel_is_repeated_until_a_round_is_long_enough() -> None:
    kernel = Kernel(1e-5)
    rounds = time_rounds(kernel, PLAN)
    assert rounds.times == (1e-5,) * len(rounds.times) and not rounds.cut
    assert kernel.counts[:2] == [1, 50] and set(kernel.counts[2:]) == {100}
    assert 20 <= len(rounds.times) <= 21


def test_a_slow_kernel_gets_few_rounds() -> None:
    assert len(time_rounds(Kernel(0.01), PLAN).times) == 5
    assert len(time_rounds(Kernel(0.3), PLAN).times) == 2
    assert time_rounds(Kernel(7.0), PLAN).times == (7.0,)


def test_a_kernel_without_any_time_ends() -> None:
    plan = Plan(rounds=5, round_seconds=1e-3, timing_seconds=0.0, most_seconds=0.5)
    assert len(time_rounds(Kernel(0.0), plan).times) == 5


@pytest.mark.parametrize(
    ("kernel", "cut", "rounds"),
    [
        (Kernel(1.9e-3), False, 11),
        (Kernel(2.1e-3), True, 2),
        (Kernel(5e-3), True, 1),  # the first run says enough
        (Kernel(1e-3, first=3.9e-3), False, 20),  # a slow first run alone is no reason
    ],
)
def test_what_clearly_loses_is_cut_short(kernel: Kernel, cut: bool, rounds: int) -> None:
    plan = Plan(rounds=5, round_seconds=1e-3, timing_seconds=20e-3, most_seconds=0.5, cut_above=2e-3)
    found = time_rounds(kernel, plan)
    assert (found.cut, len(found.times)) == (cut, rounds)


def test_a_tiny_kernel_is_not_judged_by_its_first_run() -> None:
    """Waking the threads takes longer than the whole kernel."""
    plan = Plan(rounds=5, round_seconds=1e-3, timing_seconds=5e-3, most_seconds=0.5, cut_above=2e-6)
    assert not time_rounds(Kernel(1.5e-6, first=100e-6), plan).cut


def test_interference_does_not_count() -> None:
    quiet, _ = summary([1.0, 1.01, 1.02, 1.03, 1.04])
    disturbed, spread = summary([1.0, 1.01, 1.02, 9.0, 9.0])
    assert quiet == disturbed == 1.0
    assert spread > 1
    assert summary([2.0]) == (2.0, 0.0)


def test_in_turns_the_typical_round_decides() -> None:
    lucky, steady = [1.0, 3.0, 3.0, 3.0, 3.0], [1.1, 1.2, 1.3, 1.4, 1.5]
    assert in_turns([lucky, steady]) == pytest.approx([1.0 * 3.0 / 1.2, 1.0])
    assert in_turns([[2.0]]) == [2.0]


def test_timeouts_follow_the_incumbent() -> None:
    limits = Limits(run_factor=100, run_floor=1, run_ceiling=20, build_factor=10, build_floor=2, build_ceiling=9)
    assert limits.run_timeout(None) == 20
    assert limits.run_timeout(1e-3) == 1
    assert limits.run_timeout(0.1) == 10
    assert limits.run_timeout(1.0) == 20
    assert limits.run_timeout(5.0) == 50  # the best known must always be able to run
    assert limits.build_timeout(None) == 9
    assert limits.build_timeout(0.01) == 2
    assert limits.build_timeout(0.5) == 5
    assert limits.timing_timeout(1e-3) > 2 * limits.run_timeout(1e-3)
