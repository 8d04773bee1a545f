"""Side by side: everyone has as many turns, and outputs that differ are told from rounding."""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.cli.race import largest_difference, race


def test_everyone_has_a_turn_in_every_round() -> None:
    turns: list[str] = []

    def run(name: str) -> None:
        if not turns or turns[-1] != name:
            turns.append(name)

    times = race({name: lambda name=name: run(name) for name in "abc"}, 0.0)
    assert list(times) == ["a", "b", "c"]
    assert all(0 < t.best <= t.median for t in times.values())
    assert "".join(turns).startswith("abcbabcba")  # a count of calls, then the rounds, to and fro


def test_equal_outputs() -> None:
    a = np.array([1.0, -2.0, np.nan, np.inf], np.float32)
    assert largest_difference([a, a > 0], [a, a > 0]) == (0.0, True)


def test_rounding_is_no_difference_but_more_is() -> None:
    a = np.array([1.0, -2.0], np.float32)
    worst, fine = largest_difference([a + np.float32(1e-5)], [a])
    assert fine and 0 < worst < 2e-5
    assert not largest_difference([a + np.float32(0.01)], [a])[1]


def test_differences_of_other_kinds() -> None:
    a = np.array([1.0, -2.0], np.float32)
    assert largest_difference([a[:1]], [a]) == (math.inf, False)
    assert not largest_difference([a, a], [a])[1]
    assert largest_difference([np.array([1.0, np.nan], np.float32)], [a]) == (math.inf, False)
    assert not largest_difference([np.array([3])], [np.array([4])])[1]
    assert largest_difference([np.zeros((0, 3))], [np.zeros((0, 3))]) == (0.0, True)
