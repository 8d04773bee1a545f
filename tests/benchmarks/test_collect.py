"""What is collected for learning: the same from the same seed, nothing that is held out, nothing twice."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random
from typing import Any

import pytest

import collect
import learning_draw
import policies
import train
from tensorsmith.errors import Refusal
from tensorsmith.lang.flops import flops
from tensorsmith.ops import catalogue
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import as_written, formulations, likely
from tensorsmith.targets.target import native


def some(seed: int, count: int) -> list[tuple[str, str]]:
    return [(kind, workload.key) for kind, workload in itertools.islice(learning_draw.drawn(seed), count)]


def test_the_same_seed_draws_the_same_workloads() -> None:
    assert some(3, 40) == some(3, 40) != some(4, 40)
    assert len(set(some(3, 40))) > 35 and {kind for kind, _ in some(3, 40)} == {"shape", "dag"}


@pytest.mark.parametrize("operator", catalogue.OPERATORS)
def test_every_operator_has_shapes_of_its_own(operator: str) -> None:
    build = next(case.build for case in catalogue.cases(1).values() if case.operator == operator)
    rng = Random(0)
    made = []
    for _ in range(12):
        made.append(catalogue.Case("x", operator, learning_draw.shape(operator, rng), build).workload().key)
    assert len(set(made)) > 6


def test_drawn_workloads_are_small_and_have_something_to_do() -> None:
    for _, workload in itertools.islice(learning_draw.drawn(1), 60):
        assert 0 <= flops(workload) <= learning_draw.MOST_FLOPS
        assert all(a.extent >= 1 for s in workload.stages for a in s.all_axes)


def test_batch_16_is_held_out_in_every_formulation() -> None:
    out = collect.held_out()
    for case in catalogue.cases(16).values():
        assert {f.workload.canonical_key for f in formulations(case.workload())} <= out
    first = [w for _, w in itertools.islice(collect.workloads(0), 150)]
    assert catalogue.get("GMM-1-b1").workload().canonical_key in {w.canonical_key for w in first}


def test_the_workloads_that_policies_are_compared_by_are_held_out() -> None:
    out = collect.held_out()
    assert {catalogue.get(name).workload().canonical_key for name in policies.CASES} <= out
    assert catalogue.get("GMM-1-b1").workload().canonical_key not in out


def test_programs_are_measured_and_stored(tmp_path: Path) -> None:
    path, formulation = str(tmp_path / "records.db"), as_written(catalogue.get("GMM-1-b1").workload())
    with Store.open(path) as store:
        collector = collect.Collector(store, native(), 0, None)
        try:
            assert not collector.known(formulation)
            assert collector.collect(formulation) == collector.programs > 20
            assert collector.known(formulation)
        finally:
            collector.close()
    (known,) = train.read(path)
    assert known.workload == formulation.workload.canonical_key and known.default is not None and len(known.seconds) > 12


class FakeCollector:
    def __init__(self, store: Store, target: Any, seed: int, model: Any) -> None:
        self.programs = 0
        self.seen: list[str] = []
        made.append(self)

    def known(self, formulation: Any) -> int:
        return formulation.workload.canonical_key in stored

    def collect(self, formulation: Any) -> int:
        key = formulation.workload.canonical_key
        self.seen.append(key)
        stored.add(key)
        if len(self.seen) == 3:
            raise Refusal("nothing like it")
        self.programs += 40
        return 40

    def close(self) -> None:
        pass


made: list[FakeCollector] = []
stored: set[str] = set()


def test_a_run_goes_on_where_the_last_one_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made.clear()
    stored.clear()
    held = [w for _, w in itertools.islice(collect.workloads(0), 12)][5]
    key = likely(held, formulations(held)).workload.canonical_key
    monkeypatch.setattr(collect, "Collector", FakeCollector)
    monkeypatch.setattr(collect, "held_out", lambda: {key})
    collect.main([str(tmp_path / "records.db"), "--workloads", "8"])
    collect.main([str(tmp_path / "records.db"), "--workloads", "12"])
    first, second = made
    assert len(first.seen) == 7 and len(second.seen) == 4  # one is held out
    assert not set(first.seen) & set(second.seen) and key not in first.seen + second.seen
    assert "left out: nothing like it" in capsys.readouterr().out


def test_another_machine_has_our_caches_and_its_own_vectors() -> None:
    here, other = native(), collect.stand_in("x86-64-v3")
    assert (other.cores, other.l2_bytes, other.l3_bytes) == (here.cores, here.l2_bytes, here.l3_bytes)
    assert (other.vector_bytes, other.vector_registers) == (32, 16)
    assert collect.stand_in(None) is here
