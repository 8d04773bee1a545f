"""How tokens are drawn: what each setting leaves, and how often each token comes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.language.sampling import Sampling, log_probability

SHARES = np.array([0.4, 0.05, 0.3, 0.15, 0.1])
LOGITS = np.log(SHARES).astype(np.float32)


def drawn(sampling: Sampling, count: int = 4000, before: tuple[int, ...] = ()) -> np.ndarray:
    """The share of each token."""
    random = np.random.default_rng(0)
    return np.bincount([sampling.choose(LOGITS, before, random) for _ in range(count)], minlength=5) / count


def renormalised(*kept: int, power: float = 1.0) -> np.ndarray:
    found = np.zeros(5)
    found[list(kept)] = SHARES[list(kept)] ** power
    return found / found.sum()


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        (Sampling(), SHARES),
        (Sampling(temperature=0.5), renormalised(0, 1, 2, 3, 4, power=2)),
        (Sampling(top_k=2), renormalised(0, 2)),
        (Sampling(top_k=100), SHARES),
        (Sampling(top_p=0.69), renormalised(0, 2)),
        (Sampling(top_p=0.71), renormalised(0, 2, 3)),
        (Sampling(top_p=0.0), renormalised(0)),
        (Sampling(min_p=0.3), renormalised(0, 2, 3)),
        (Sampling(temperature=0), renormalised(0)),
    ],
)
def test_tokens_come_as_often_as_they_should(sampling: Sampling, wanted: np.ndarray) -> None:
    found = drawn(sampling)
    assert (found[wanted == 0] == 0).all()
    np.testing.assert_allclose(found, wanted, atol=0.03)


def test_repetition_makes_what_was_there_less_likely() -> None:
    logits = np.array([2.0, 1.5, -1.0], np.float32)
    random = np.random.default_rng(0)
    penalty = Sampling(temperature=0, repetition_penalty=2)
    assert Sampling(temperature=0).choose(logits, (0,), random) == 0
    assert penalty.choose(logits, (0,), random) == 1
    assert penalty.choose(-logits, (2,), random) == 2 - 0 * int(logits[0])
    np.testing.assert_array_equal(logits, np.array([2.0, 1.5, -1.0], np.float32))  # what was given stays


def test_equal_logits_are_the_first_one() -> None:
    assert Sampling(temperature=0).choose(np.zeros(4, np.float32), (), np.random.default_rng(0)) == 0


def test_log_probabilities_add_up() -> None:
    assert log_probability(LOGITS, 2) == pytest.approx(np.log(0.3), abs=1e-6)
    assert log_probability(LOGITS + 1000, 2) == pytest.approx(np.log(0.3), abs=1e-3)
