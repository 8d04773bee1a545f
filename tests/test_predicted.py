"""Schedules without any trial: the model's choice where it is sure, else the default schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith import predicted as module
from tensorsmith.backends import backend_of, space_of
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.models.ensemble import EnsembleModel, EnsembleSettings, Sure
from tensorsmith.learn.models.random import RandomModel
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import native

TARGET = native()
TIMING = Timing("warm", TARGET.cores)


def matmul(n: int = 48) -> Workload:
    a, b = ts.placeholder((n, 32), name="A"), ts.placeholder((32, 64), name="B")
    k = ts.reduce_axis(32, name="k")
    return ts.workload([a, b, ts.compute((n, 64), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])


def prior_of(n: int) -> float:
    """Of the n-th proposal beside the default schedule, which is number 0: faster and slower in turns, and ever further from it."""
    return (n if n % 2 == 0 else -n) / 16


@pytest.fixture(autouse=True)
def a_prior_of_the_tests_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU's own prior says something else on every CPU, and on some nothing is ahead of the default schedule."""
    make = module.feature_rows

    def feature_rows(*given: Any) -> Any:
        rows, _, order = make(*given)
        return rows, np.array([prior_of(int(n)) for n in order]), order

    monkeypatch.setattr(module, "feature_rows", feature_rows)


class Opinionated(EnsembleModel):
    """Both members like what the prior finds unlike the default schedule, faster or slower; one of them by so much more and the
    other by so much less as they are `differing`."""

    def __init__(self, sure: Sure, differing: float = 0.0) -> None:
        super().__init__(EnsembleSettings(members=2), sure)
        self.differing = differing

    def beginning(self) -> Any:
        return RandomModel()

    def opinions(self, given: Any, base: Any = 0.0) -> np.ndarray:
        assert isinstance(given, FeatureRows)
        found = np.abs(base)
        return np.stack([found * (1 + self.differing), found * (1 - self.differing)])


def test_the_one_that_the_model_likes_most_is_taken_if_it_is_ahead_by_the_margin() -> None:
    judged = module.judged(matmul(), TARGET, Opinionated(Sure(margin=0.1)))
    prior = [prior_of(n) for n in range(len(judged.candidates))]
    wanted = [abs(p) if p >= 0 else -np.inf for p in prior]
    assert judged.gains == pytest.approx(wanted, abs=1e-4)
    best = judged.best(0.1)
    assert max(judged.gains) > 0.1 and min(judged.gains) == -np.inf  # else this test says nothing
    assert best is judged.candidates[int(np.argmax(judged.gains))]
    assert judged.best(max(judged.gains) + 0.01) is None


def test_the_default_schedule_is_judged_once_and_comes_first() -> None:
    workload, programs = matmul(), Programs()
    judged = module.judged(workload, TARGET, Opinionated(Sure()))
    default = programs.key(backend_of(TARGET).default_candidate(workload, TARGET))
    assert [programs.key(c) == default for c in judged.candidates] == [True] + [False] * (len(judged.candidates) - 1)
    assert judged.gains[0] == 0.0 and len(judged.candidates) > 32


def test_doubt_is_for_the_default_schedule() -> None:
    sure, doubtful = (Opinionated(Sure(doubt=1.0, margin=0.1), differing) for differing in (0.0, 1.0))
    assert module.predicted(matmul(), TARGET, sure) is not None
    assert module.predicted(matmul(), TARGET, doubtful) is None


def test_the_same_choice_on_every_call() -> None:
    model = Opinionated(Sure(margin=0.1))
    one, other = (module.predicted(matmul(), TARGET, model) for _ in range(2))
    assert one is not None and other is not None and one.to_json() == other.to_json()


def test_records_of_other_sizes_are_among_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that proposes nothing but what was carried over."""
    workload, other = matmul(48), matmul(64)
    similar = backend_of(TARGET).default_candidate(other, TARGET)
    hints = []
    make = module.TensorsmithPolicy

    def policy(space: Any, **options: Any) -> Any:
        hints.append(options["hints"])
        return make(space, **options)

    monkeypatch.setattr(module, "TensorsmithPolicy", policy)
    module.judged(workload, TARGET, Opinionated(Sure()), [similar])
    assert hints == [[similar]]


# -- in compile ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(one: EnsembleModel | None) -> None:
        monkeypatch.setattr(module, "pretrained", lambda schema: one)

    return use


def schedule(workload: Workload, **options: Any) -> str:
    """Where the program came from; its answer is right."""
    kernel = ts.compile(workload, **options)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, x.shape).astype(np.float32) for x in workload.inputs)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)
    (made,) = kernel.network.kernels
    return made.schedule


def test_compile_takes_what_the_model_is_sure_of_if_it_is_asked(model: Any) -> None:
    model(Opinionated(Sure(margin=0.1)))
    assert schedule(matmul()) == "default"
    assert schedule(matmul(), effort="model") == "model"
    model(Opinionated(Sure(margin=1e9)))
    assert schedule(matmul(), effort="model") == "default"


def test_a_record_comes_before_the_model(model: Any, tmp_path: Path) -> None:
    model(Opinionated(Sure(margin=0.1)))
    workload = matmul()
    with Store.open(tmp_path / "tune.db") as store:
        default = backend_of(TARGET).default_candidate(workload, TARGET)
        store.add(workload, TARGET, TIMING, [Trial(default, Status.OK, 1e-6)])
    assert schedule(workload, effort="model", database=tmp_path / "tune.db") == "record"


def test_without_a_model_there_is_a_warning_and_the_default_schedule(model: Any) -> None:
    model(None)
    with pytest.warns(UserWarning, match="no pre-trained model"):
        assert schedule(matmul(), effort="model") == "default"


def test_other_efforts_are_for_tune() -> None:
    with pytest.raises(UserError, match=r'no effort .quick. without a search; it is "model", or nothing; to search, use tune'):
        ts.compile(matmul(), effort="quick")  # type: ignore[call-overload]


def test_tasks_of_networks(model: Any) -> None:
    model(Opinionated(Sure(margin=0.1)))
    b = Builder("dense")
    x = b.input("x", (48, 32), "f32")
    weight = np.random.default_rng(0).uniform(-1, 1, (32, 64)).astype(np.float32)
    b.output("y", b.add("relu", [b.add("matmul", [x, b.constant(weight)])]))
    network = ts.Model.from_graph(b.graph())
    made = ts.compile(network, effort="model")
    assert [k.schedule for k in made.network.kernels] == ["model"]
    given = np.random.default_rng(1).uniform(-1, 1, (48, 32)).astype(np.float32)
    np.testing.assert_allclose(made(given), np.maximum(given @ weight, 0), rtol=1e-4, atol=1e-4)


def test_a_workload_alone_takes_a_record_of_another_size_too(tmp_path: Path) -> None:
    """It was far ahead of the default schedule at its own size."""
    near = matmul(64)
    default = backend_of(TARGET).default_candidate(near, TARGET)
    programs, space = Programs(), space_of(near, TARGET)
    other = next(
        c for c in space.candidates(sample(space, 16, np.random.default_rng(0))) if programs.key(c) != programs.key(default)
    )
    with Store.open(tmp_path / "tune.db") as store:
        store.add(near, TARGET, TIMING, [Trial(default, Status.OK, 1e-2), Trial(other, Status.OK, 1e-6)])
    assert schedule(matmul(48), database=tmp_path / "tune.db") == "carried"
