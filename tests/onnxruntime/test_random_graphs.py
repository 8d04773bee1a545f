"""Random graphs in sessions with our provider give what ONNX Runtime gives, whichever parts we take."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from tests.frontends.random_agreement import outputs_like
from tests.frontends.random_graphs import Case, Refused, random_case
from tests.frontends.random_operators import OPERATORS
from tests.onnxruntime.networks import session

from tensorsmith.onnxruntime.provider import parts


def check(case: Case) -> int:
    """Runs a case twice, with other inputs in between; gives how many parts were ours."""
    ours = session(case.model.SerializeToString())
    results = ours.run(None, case.inputs)
    assert outputs_like("in a session", case, results) == [], case.listing
    ours.run(None, {name: np.ones_like(array) for name, array in case.inputs.items()})
    again = ours.run(None, case.inputs)
    assert [a.tobytes() for a in again] == [a.tobytes() for a in results], case.listing
    return len(parts())


def run(seeds: range) -> Counter[int]:
    counts: Counter[int] = Counter()
    for seed in seeds:
        try:
            case = random_case(Random(seed), OPERATORS)
        except Refused:
            continue
        counts[check(case)] += 1
    return counts


def test_random_graphs() -> None:
    counts = run(range(12))
    assert sum(counts.values()) - counts[0] >= 6  # mostly there is something for us


@pytest.mark.long
def test_many_random_graphs() -> None:
    run(range(1000, 1500))
