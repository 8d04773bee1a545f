"""Features of a population, whose statements are worked out together, are those of every group alone."""

from __future__ import annotations

import gc
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.backends.cpu.features.test_extract import STRUCTURES, random_batch
from tests.backends.cpu.machines import target
from tests.property.schedules import random_candidate

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.features import batch
from tensorsmith.backends.cpu.features.batch import extract_groups, extract_rows
from tensorsmith.backends.cpu.features.extract import extract, extract_decisions
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.backends.cpu.features.symbol import Graph
from tensorsmith.backends.cpu.features.templates import Templates
from tensorsmith.backends.cpu.memory import spacing
from tensorsmith.lang.define import compute, maximum, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as total
from tensorsmith.learn.features.rows import Batch, FeatureMatrix
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.population.sampling import sample

TARGET = target(vector_bytes=32, registers=16)


def assert_equal(alone: FeatureMatrix, together: FeatureMatrix) -> None:
    assert alone.stages == together.stages and alone.values.shape == together.values.shape
    wrong = np.argwhere(~np.isclose(alone.values, together.values, rtol=1e-6, atol=1e-6))
    shown = [
        (alone.stages[b], SCHEMA.names[f], float(alone.values[n, b, f]), float(together.values[n, b, f])) for n, b, f in wrong[:5]
    ]
    assert not shown, f"(block, feature, alone, in the population): {shown}"


def population(case: str, size: int, seed: int = 0) -> list[Batch]:
    space = space_of(catalogue.get(case).workload(), TARGET)
    found = sample(space, size, np.random.default_rng(seed))
    return [(g.sketch, g.decisions) for p in found for g in space.plans[p.plan].groups(p.matrix)]


@pytest.mark.parametrize("case", ["ConvLayer-2-b1", "GMM-3-b1", "TBS-1-b1", "DEP-1-b1", "T2D-1-b1", "NRM-1-b1", "CAP-1-b1"])
def test_a_population_is_its_groups(case: str) -> None:
    groups = population(case, 96)
    for (sketch, decisions), together in zip(groups, extract_groups(groups, TARGET), strict=True):
        assert_equal(extract_decisions(sketch, decisions, TARGET), together)


def test_copies_whose_loops_take_one_step_have_features_too() -> None:
    """In the arrays of a population such a loop may have no stride; a row alone, in plain numbers, never divides by it."""
    a, b = placeholder((17, 13), name="A"), placeholder((13, 24), name="B")
    k = reduce_axis(13, name="k")
    c = compute((17, 24), lambda i, j: total(a[i, k] * b[k, j], axis=k), name="C")
    d = compute((17, 24), lambda i, j: maximum(c[i, j], 0.0), name="D")
    space = space_of(workload([a, b, d]), TARGET)
    for p in sample(space, 64, np.random.default_rng(0)):
        plan = space.plans[p.plan]
        for group in plan.groups(p.matrix):
            (together,) = extract_groups([(group.sketch, group.decisions)], TARGET)
            assert np.isfinite(together.values).all()
            for n, row in enumerate(group.rows[:3]):
                alone = extract(lower(plan.candidate(p.matrix[row])), TARGET)
                assert_equal(alone, replace(together, values=together.values[n : n + 1]))


@pytest.mark.parametrize("case", sorted(catalogue.small()))
def test_random_structures_together(case: str) -> None:
    rng = Random(case)
    groups: list[Batch] = []
    for _ in range(6):
        sketch = random_candidate(catalogue.get(case).workload(), rng).sketch
        groups.append((sketch, random_batch(sketch, rng, rng.randint(1, 4))[1]))
    for (sketch, decisions), together in zip(groups, extract_groups(groups, TARGET), strict=True):
        assert_equal(extract_decisions(sketch, decisions, TARGET), together)


def test_different_workloads_together() -> None:
    rng = Random(0)
    groups: list[Batch] = [(sketch, random_batch(sketch, rng, 5)[1]) for sketch in STRUCTURES.values()]
    for (sketch, decisions), together in zip(groups, extract_groups(groups, TARGET), strict=True):
        assert_equal(extract_decisions(sketch, decisions, TARGET), together)


def test_one_candidate_with_plain_numbers() -> None:
    sketch = STRUCTURES["layer, padded first"]
    rows, _ = random_batch(sketch, Random(1), 1)
    (together,) = extract_groups([(sketch, rows[0])], TARGET)
    assert_equal(extract_decisions(sketch, rows[0], TARGET), together)


def test_what_was_seen_before_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = population("ConvLayer-2-b1", 64)
    extract_groups(groups[::2], TARGET)
    some = extract_groups(groups, TARGET)
    monkeypatch.setattr(batch, "templates", Templates)
    for a, b in zip(some, extract_groups(groups, TARGET)):
        assert_equal(a, b)


def test_statements_seen_in_other_structures_are_not_lowered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = population("TBS-1-b1", 128)
    seen = Templates(spacing(TARGET))
    alone = [len(Templates(spacing(TARGET)).of(sketch).statements) for sketch, _ in groups]
    for sketch, _ in groups:
        seen.of(sketch)
    assert len(seen._traced) < 0.7 * sum(alone)
    monkeypatch.setattr(batch, "templates", lambda _: seen)
    for (sketch, decisions), together in zip(groups, extract_groups(groups, TARGET), strict=True):
        assert_equal(extract_decisions(sketch, decisions, TARGET), together)


def test_structures_are_forgotten_when_nobody_has_them() -> None:
    seen = Templates(spacing(TARGET))
    groups = population("ConvLayer-2-b1", 64)
    kept = groups[0][0]
    for sketch, _ in groups:
        seen.of(sketch)
    assert len(seen._structures) == len({id(sketch) for sketch, _ in groups}) > 1
    del groups, sketch
    gc.collect()
    assert list(seen._structures) == [id(kept)]


def test_candidates_that_share_a_statement_share_its_work() -> None:
    ((sketch, decisions), *_) = population("TBS-1-b1", 96)
    many = {hole: np.repeat(values, 20) for hole, values in decisions.items()}
    (few,), (together,) = extract_groups([(sketch, decisions)], TARGET), extract_groups([(sketch, many)], TARGET)
    np.testing.assert_array_equal(np.repeat(few.values, 20, axis=0), together.values)


def test_totals_are_over_the_statements_of_a_candidate() -> None:
    groups = population("ConvLayer-2-b1", 64)
    rows = extract_rows(groups, TARGET)
    sums = rows.total(rows.values.sum(axis=1, dtype=np.float64))
    expected = np.concatenate([m.values.sum(axis=(1, 2), dtype=np.float64) for m in rows.matrices()])
    assert sums == pytest.approx(expected)


def test_no_group_at_all() -> None:
    assert extract_groups([], TARGET) == []


def test_a_symbol_has_the_value_of_its_expression() -> None:
    graph = Graph()
    a, b = graph.hole("a"), graph.hole("b")
    e = np.where((a > 3) & ~(b == 2), np.minimum(-(-a // b), 7), abs(2 - a) / b)
    assert e.node == np.where((a > 3) & ~(b == 2), np.minimum(-(-a // b), 7), abs(2 - a) / b).node
    values = {"a": np.array([1.0, 5.0, 100.0, 9.0]), "b": np.array([1.0, 2.0, 3.0, 4.0])}
    assert graph.evaluate([e.node], values)[e.node].tolist() == [1.0, 1.5, 7.0, 3.0]
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(a > b)
