"""Constants in loop order: the short way, by splitting and turning dimensions, gives what looking up every element gives."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.program.ir import LoopVar, PackedRead
from tensorsmith.program.linear import Linear
from tensorsmith.program.packing import _picked, _split_and_turned, pack


def read(order: str, counts: dict[str, int], *indices: dict[str, int], offset: int = 0) -> PackedRead:
    """A read in loops of those counts; each index by the coefficients of its loops."""
    loops = tuple(LoopVar(n, "s", n, counts[n], 1, False) for n in order)
    return PackedRead("t", loops, tuple(Linear(terms, offset) for terms in indices))


SPLIT = [
    (read("acbd", {"a": 3, "b": 4, "c": 2, "d": 5}, {"a": 4, "b": 1}, {"c": 5, "d": 1}), (12, 10)),
    (read("acbd", {"a": 3, "b": 4, "c": 2, "d": 5}, {"a": 4, "b": 1}, {"c": 5, "d": 1}), (10, 7)),  # loops run past both
    (read("bca", {"a": 3, "b": 2, "c": 4}, {"a": 2, "b": 1}, {}, {"c": 1}), (6, 1, 4)),
    (read("ab", {"a": 6, "b": 1}, {"a": 1, "b": 6}), (6,)),  # a loop of one step, wherever it would go
]
OTHER = [
    (read("ab", {"a": 5, "b": 3}, {"a": 1, "b": 1}), (7,)),  # windows that overlap
    (read("ab", {"a": 3, "b": 2}, {"a": 4, "b": 1}), (12,)),  # gaps
    (read("a", {"a": 4}, {"a": 1}, {"a": 1}), (4, 4)),  # a diagonal
    (read("a", {"a": 4}, {"a": 1}, offset=1), (5,)),
    (read("a", {"a": 4}, {"a": 1}), (6,)),  # a part of it
]


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4"])
@pytest.mark.parametrize(("packed", "shape"), SPLIT + OTHER)
def test_every_way_gives_the_same(packed: PackedRead, shape: tuple[int, ...], dtype: str) -> None:
    array = np.random.default_rng(0).integers(1, 100, shape).astype(dtype)
    wide = np.zeros((*shape[:-1], shape[-1] + 3), dtype)
    wide[..., 3:] = array
    for given in (array, wide[..., 3:], np.asfortranarray(array)):
        found = pack(packed, given)
        assert found.flags.c_contiguous and found.dtype == array.dtype
        np.testing.assert_array_equal(found, _picked(packed, array))


def test_which_way_is_taken() -> None:
    for cases, short in ((SPLIT, True), (OTHER, False)):
        for packed, shape in cases:
            assert (_split_and_turned(packed, np.ones(shape, "f4")) is not None) is short
