"""Inputs filled up to the sizes of code that is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.buffers import aligned_empty
from tensorsmith.runtime.variants import padding


@pytest.fixture(autouse=True)
def memory_that_was_used_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not written holds the worst there is: -1 as an index, NaN as a number. Fresh memory is often zero by chance."""

    def used(shape: tuple[int, ...], dtype: Any, what: str = "an array") -> np.ndarray:
        made = aligned_empty(shape, dtype, what)
        made.reshape(-1).view(np.uint8)[:] = 0xFF
        return made

    monkeypatch.setattr(padding, "aligned_empty", used)


@pytest.mark.parametrize("dtype", ["f32", "i64", "u8"])
def test_around_an_input_there_are_zeros(dtype: str) -> None:
    """They may be indices, and others would read from anywhere."""
    argument = Argument("x", (5, 7), dtype)
    given = np.arange(1, 13).reshape(3, 4).astype(argument.numpy_dtype)
    made = padding.filled(given, argument)
    assert made.shape == (5, 7) and made.dtype == argument.numpy_dtype
    np.testing.assert_array_equal(made, np.pad(given, ((0, 2), (0, 3))))


def test_an_input_of_that_size_is_not_copied() -> None:
    given = np.ones((3, 4), np.float32)
    assert padding.filled(given, Argument("x", (3, 4), "f32")) is given


def test_results_are_cut() -> None:
    result = np.arange(35, dtype=np.float32).reshape(5, 7)
    np.testing.assert_array_equal(padding.cut(result, (3, 4)), result[:3, :4])
    out = np.empty((3, 4), np.float32)
    assert padding.cut(result, (3, 4), out) is out and (out == result[:3, :4]).all()
