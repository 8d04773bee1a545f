"""Which steps of loops are written one after another in the code, instead of being run by a loop.

The spatial loops of a register tile always are. A loop that is marked (`k.0!`) is *laid out*: all its steps are written, if they
are few. Of the reduction loops of a tile some steps are written *in a row*, so that each round of the loop takes several:
as many as the tile's `unroll` says, over all its loops together, the innermost first.

Counts are integers, or arrays with one entry per candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.program.flags import Flag, both, either, flag, where
from tensorsmith.program.linear import Number

MAX_LAID_OUT = 16  # steps of a marked loop; a longer one stays a loop
PRAGMA = (0, 16, 64, 512)  # values of TVM's `auto_unroll_max_step` that Ansor tries on CPUs: stores of an unrolled body


def is_laid_out(marked: Flag, steps: Number) -> Flag:
    """Whether a loop is written step by step because it is marked."""
    return both(marked, flag(steps <= MAX_LAID_OUT))


def steps_in_a_row(counts: Sequence[Number], unroll: Number) -> list[Number]:
    """Steps that one round of each reduction loop takes, given how often the loops run, outermost first.

    >>> steps_in_a_row([3, 8, 2], 8)
    [1, 4, 2]
    """
    found: list[Number] = []
    for count in reversed(counts):
        count = where(flag(count < 1), 1, count)  # over an empty axis
        whole = flag(unroll >= count)
        found.insert(0, where(whole, count, unroll))
        unroll = where(whole, unroll // count, 1)  # a loop of which steps are left to run stops the unrolling around it
    return found


def is_written_whole(marked: Flag, steps: Number, in_a_row: Number) -> Flag:
    """Whether no loop is left of a reduction loop: what would be a loop of one round, and a rest, is as much code."""
    return either(flag(steps < 2 * in_a_row), is_laid_out(marked, steps))


def partial_sums(in_a_row: int, results: int, chains: int, registers: int | None = None) -> int:
    """Over how many registers the steps in a row spread each result.

    A result waits for its last addition; `chains` additions must be under way to keep the machine busy. The results of a full tile
    are enough, those of the few rows that are left at the end of an axis are not. All sums together take no more than so many
    `registers`, if that is given.
    """
    wanted = -(-chains // max(1, results))
    if registers is not None:
        wanted = min(wanted, max(1, registers // max(1, results)))
    return max(n for n in range(1, in_a_row + 1) if in_a_row % n == 0 and n <= wanted)


def steps_under_pragma(counts: Sequence[Number], stores: Number, limit: Number) -> Number:
    """Steps of a reduction in a row under TVM's `auto_unroll_max_step`: its innermost loops, each as a whole, as long as the
    unrolled body has no more than `limit` stores. `stores` are those of one step, `counts` how often the loops run, the outermost
    first.

    >>> steps_under_pragma([3, 8, 2], 4, 64)
    16
    """
    steps: Number = 1
    fits: Flag = True
    for count in reversed(counts):
        count = where(flag(count < 1), 1, count)  # over an empty axis
        fits = both(fits, flag(steps * count * stores <= limit))
        steps = where(fits, steps * count, steps)
    return steps


def pragma_of(stores: Number) -> Number:
    """The least value of the pragma under which a body of so many stores is unrolled."""
    least = np.array(PRAGMA, np.float64)[np.minimum(np.searchsorted(PRAGMA, stores), len(PRAGMA) - 1)]
    return where(flag(stores > 1), least, 0.0)
