"""Outputs that differ are told from rounding."""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.cli.differences import largest_difference


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
