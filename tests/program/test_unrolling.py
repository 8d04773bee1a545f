"""Which steps are written in a row: by hand, and the same for a population as for each of its rows."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.program.tails import is_partial, variants
from tensorsmith.program.unrolling import MAX_LAID_OUT, is_laid_out, is_written_whole, partial_sums, steps_in_a_row


@pytest.mark.parametrize(
    ("counts", "unroll", "steps"),
    [
        ([64], 4, [4]),
        ([64], 1, [1]),
        ([3, 8, 2], 8, [1, 4, 2]),  # the middle loop is left, so the outer one is not unrolled
        ([3, 4, 2], 8, [1, 4, 2]),
        ([3, 4, 2], 16, [2, 4, 2]),
        ([5, 3], 7, [2, 3]),  # what is left of 7 for the outer loop
        ([2, 2], 100, [2, 2]),
        ([4, 0], 4, [4, 1]),  # over an empty axis
        ([], 4, []),
    ],
)
def test_innermost_loops_are_unrolled_first(counts: list[int], unroll: int, steps: list[int]) -> None:
    assert steps_in_a_row(counts, unroll) == steps


def test_a_population_is_its_rows() -> None:
    rng = np.random.default_rng(0)
    counts, unroll = rng.integers(0, 12, (3, 200)), rng.integers(1, 20, 200)
    together = np.array(steps_in_a_row(list(counts), unroll))
    whole = is_written_whole(True, counts[0], together[0])
    for n in range(200):
        alone = steps_in_a_row(counts[:, n].tolist(), int(unroll[n]))
        assert together[:, n].tolist() == alone
        assert whole[n] == is_written_whole(True, int(counts[0, n]), alone[0])  # type: ignore[index]


def test_short_marked_loops_are_laid_out() -> None:
    assert is_laid_out(True, MAX_LAID_OUT) and not is_laid_out(True, MAX_LAID_OUT + 1) and not is_laid_out(False, 2)


def test_a_loop_of_one_round_is_none() -> None:
    assert is_written_whole(False, 7, 4) and not is_written_whole(False, 8, 4)
    assert is_written_whole(True, 8, 4) and not is_written_whole(True, 40, 4)


@pytest.mark.parametrize(("in_a_row", "results", "sums"), [(4, 1, 4), (6, 2, 3), (4, 3, 2), (8, 8, 1), (8, 100, 1), (5, 2, 1)])
def test_few_results_are_spread(in_a_row: int, results: int, sums: int) -> None:
    """With 8 additions under way: as many sums as fill the time, each of as many steps."""
    assert partial_sums(in_a_row, results, chains=8) == sums


def test_sums_take_no_more_registers_than_there_are() -> None:
    assert [partial_sums(4, 6, chains=8, registers=n) for n in (24, 12, 11, 3)] == [2, 2, 1, 1]


def test_a_tile_that_does_not_fit_is_written_twice() -> None:
    lengths = np.array([12, 13])
    assert is_partial(lengths, 4).tolist() == [False, True]  # type: ignore[union-attr]
    assert variants(is_partial(12, 4)) == 1 and variants(is_partial(13, 4)) == 2
