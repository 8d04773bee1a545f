"""Which records a run learns from, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.records.samples import TARGET, TIMING, matmul, trial

from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.tuning.history import experience as module
from tensorsmith.tuning.history.experience import Experience
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import HowMeasured, Plugins

NUMBERS = range(1, 33)


def experience(journal: Journal, plugins: Plugins = Plugins.of(TARGET)) -> Experience:  # noqa: B008
    return Experience(journal, HowMeasured(TARGET, TIMING.cache), plugins)


@pytest.fixture
def lessons(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The outputs whose trials were learned from, each time."""
    seen: list[list[str]] = []

    def learn(trials, target, model):
        seen.append([t.candidate.sketch.workload.outputs[0] for t in trials])
        return f"lesson {len(seen)}"

    monkeypatch.setattr(module, "learn", learn)
    return seen


def add(to: Journal | Store, name: str, target=TARGET, timing=TIMING, run: str = "") -> None:
    workload = matmul(m=sum(name.encode()), name=name)  # each a computation of its own
    to.add(workload, target, timing, [trial(workload, 1e-6 * n, i=n) for n in NUMBERS], run=run)


def test_records_of_the_same_kind_are_learned_from_once(tmp_path: Path, lessons) -> None:
    with Store.open(tmp_path / "tune.db") as store:
        for n in range(20):
            add(store, f"W{n}")
        add(store, "other_machine", target=replace(TARGET, vector_bytes=64))
        add(store, "other_timing", timing=Timing("cold", 2))
        add(store, "finalists", run="finalists")
    with Journal(tmp_path / "tune.db") as journal:
        known = experience(journal)
        assert known.taught() == "lesson 1"
        assert known.taught() == "lesson 1"  # for the next search, the same
    (lesson,) = lessons
    assert set(lesson) == {f"W{n}" for n in range(20 - module._WORKLOADS, 20)}  # those tried last
    assert {lesson.count(name) for name in lesson} == {module._MOST // module._WORKLOADS}


def test_a_run_learns_anew_when_it_knows_twice_as_much(lessons) -> None:
    with Journal(None) as journal:
        known = experience(journal)
        assert known.taught() is None and not lessons
        for n in range(16):
            add(journal, f"W{n}")
            known.taught()
        assert [len(lesson) for lesson in lessons] == [
            32,
            64,
            128,
            module._MOST,
            module._MOST,
        ]  # after 32, 64, 128, 256, 512 trials


def test_little_is_not_enough(tmp_path: Path, lessons, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAST", len(NUMBERS) + 1)
    with Journal(tmp_path / "tune.db") as journal:
        add(journal, "W")
        assert experience(journal).taught() is None and not lessons


@pytest.mark.parametrize("plugins", [Plugins.of(TARGET, "random"), Plugins.of(TARGET, "ansor"), Plugins.of(TARGET, model="prior")])
def test_a_search_that_needs_no_lesson_gets_none(plugins, lessons) -> None:
    with Journal(None) as journal:
        for n in range(8):
            add(journal, f"W{n}")
        known = experience(journal, plugins)
        assert known.taught() is None and not lessons
        assert type(known.model_for(matmul(), 3)) is type(plugins.model)


def test_the_same_records_give_the_same_sample(tmp_path: Path) -> None:
    found = []
    for name in ("a.db", "b.db"):
        with Store.open(tmp_path / name) as store:
            add(store, "W0")
            add(store, "W1")
            found.append([(r.workload.outputs[0], r.key, r.seconds) for r in store.sample(TARGET, TIMING, 2, 10)])
    assert found[0] == found[1] and len(found[0]) == 10
    assert len({seconds for _, _, seconds in found[0]}) > 5  # not the first ones
