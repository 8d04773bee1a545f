"""The comparison of lowered programs with steps notices every number that is another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.records.ansor.test_log import LOGS

from tensorsmith.records import ansor
from tensorsmith.records.ansor.check import differing
from tensorsmith.records.ansor.placing import Placed


def placed_of(name: str) -> Placed:
    group = ansor.read(LOGS / f"{name}.jsonl").groups[0]
    assert group.placed is not None
    return group.placed


@pytest.mark.parametrize("name", ["v100.matmul", "v100.conv2d", "v100.pooling", "x86.matmul", "x86.conv2d"])
def test_each_size_and_binding_counts(name: str) -> None:
    placed = placed_of(name)
    assert not differing(placed).any()
    shown = [h for h in placed.decisions if not h.endswith((".unroll", ".pad", ".buffers"))]
    noticed = 0
    for hole in shown:
        for factor in (2, 3):
            other = {**placed.decisions, hole: placed.decisions[hole] * factor}
            noticed += bool(differing(replace(placed, decisions=other)).any())
    # a size that is all of its axis already stays what it is
    assert noticed >= len(shown)


def test_another_place_is_noticed() -> None:
    placed = placed_of("v100.matmul")
    nests = [replace(n) for n in placed.sketch.nests]
    moved = [
        n if n.stage != "C.cache.A" else type(n)(n.stage, n.loops, n.vector, "C.cache:2", n.packed, n.follows, n.also)
        for n in nests
    ]
    sketch = type(placed.sketch)(placed.sketch.workload, tuple(moved), placed.sketch.rewrites).check()
    assert differing(replace(placed, sketch=sketch)).any()


def test_records_are_told_apart() -> None:
    """One record of several may differ."""
    placed = placed_of("v100.matmul")
    assert len(placed.state.numbers) > 1
    changed = placed.decisions["C.i.2"].copy()
    changed[1] *= 2
    found = differing(replace(placed, decisions={**placed.decisions, "C.i.2": changed}))
    assert list(np.flatnonzero(found)) == [1]
