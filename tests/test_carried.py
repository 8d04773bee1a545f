"""A record of one size for another that was never tuned: only where there is evidence that it is ahead of the default schedule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith import carried
from tensorsmith.backends import backend_of, space_of
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.records import Store, Timing
from tensorsmith.runtime.variants.symbols import OpenArgument
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

TARGET = native()
TIMING = Timing("warm", TARGET.cores)
W = np.random.default_rng(0).uniform(-1, 1, (32, 48)).astype(np.float32)


def model() -> OpenModel:
    def make(sizes: Mapping[str, int]) -> ts.Model:
        b = Builder("dense")
        h = b.input("x", (sizes["batch"], 32), "f32")
        b.output("y", b.add("relu", [b.add("matmul", [h, b.constant(W)])]))
        return ts.Model.from_graph(b.graph())

    return OpenModel("dense", [OpenArgument("x", ("batch", 32), "f32")], {}, make)


def another(workload: Any, default: Candidate) -> Candidate:
    """A candidate that is not the default schedule."""
    programs = Programs()
    space = space_of(workload, TARGET)
    found = space.candidates(sample(space, 16, np.random.default_rng(0)))
    return next(c for c in found if programs.key(c) != programs.key(default))


def schedule(database: Path, batch: int) -> str:
    executable = ts.compile(model(), database=database)
    x = np.random.default_rng(1).uniform(-1, 1, (batch, 32)).astype(np.float32)
    np.testing.assert_allclose(executable(x), np.maximum(x @ W, 0.0), rtol=1e-4, atol=1e-4)
    (kernel,) = executable.at(batch=batch).network.kernels
    return kernel.schedule


@pytest.fixture
def tuned(tmp_path: Path) -> Any:
    """Makes a record file of batch 16: seconds of the default schedule and of another candidate."""

    def make(default_seconds: float | None, seconds: float) -> Path:
        (task,) = model().at(batch=16).tasks()
        default = backend_of(TARGET).default_candidate(task.workload, TARGET)
        trials = [Trial(another(task.workload, default), Status.OK, seconds)]
        if default_seconds is not None:
            trials.append(Trial(default, Status.OK, default_seconds))
        database = tmp_path / "tune.db"
        with Store.open(database) as store:
            store.add(task.workload, TARGET, TIMING, trials)
        return database

    return make


def test_a_record_that_is_far_ahead_is_carried_over(tuned: Any) -> None:
    database = tuned(1e-2, 1e-6)
    assert schedule(database, 16) == "record"
    assert schedule(database, 12) == schedule(database, 32) == "carried"


@pytest.mark.parametrize(("default", "seconds"), [(1.02e-6, 1e-6), (1e-6, 1e-3), (None, 1e-6)])
def test_without_evidence_the_default_schedule_is_used(tuned: Any, default: float | None, seconds: float) -> None:
    """It is ahead by too little, or behind, or nobody measured the default schedule beside it."""
    assert schedule(tuned(default, seconds), 12) == "default"


def test_sizes_far_apart_say_nothing(tuned: Any) -> None:
    database = tuned(1e-2, 1e-6)
    assert schedule(database, 3) == schedule(database, 65) == "default"


def test_the_prior_may_object(tuned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is expected to lose at this size what it gained at its own."""
    database = tuned(2e-6, 1e-6)
    (task,) = model().at(batch=12).tasks()
    default = backend_of(TARGET).default_candidate(task.workload, TARGET)
    programs = Programs()

    def speed(candidate: Candidate, target: Any) -> float:
        here = candidate.sketch.workload.key == task.workload.key
        return -3.0 if here and programs.key(candidate) != programs.key(default) else 0.0

    monkeypatch.setattr(carried, "_speed", speed)
    assert schedule(database, 12) == "default"
    monkeypatch.setattr(carried, "_speed", lambda candidate, target: 0.0)
    assert schedule(database, 12) == "carried"


def test_the_prior_alone_is_no_evidence(tuned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was hardly ahead at its own size, and is said to be so here."""
    database = tuned(1.02e-6, 1e-6)
    (task,) = model().at(batch=12).tasks()
    default = backend_of(TARGET).default_candidate(task.workload, TARGET)
    programs = Programs()

    def speed(candidate: Candidate, target: Any) -> float:
        here = candidate.sketch.workload.key == task.workload.key
        return 3.0 if here and programs.key(candidate) != programs.key(default) else 0.0

    monkeypatch.setattr(carried, "_speed", speed)
    assert schedule(database, 12) == "default"


def test_what_cannot_be_built_falls_back(tuned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorsmith import build

    made = build.build_kernel

    def refusing(candidate: Candidate, target: Any, name: Any = None, schedule: str = "", *others: Any) -> Any:
        if schedule == "carried":
            raise RuntimeError("no")
        return made(candidate, target, name, schedule, *others)

    monkeypatch.setattr(build, "build_kernel", refusing)
    assert schedule(tuned(1e-2, 1e-6), 12) == "default"
