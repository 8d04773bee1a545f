"""Policies, rules, cost models and formulations that `ts.tune` is given reach the search. Times are made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.measure.small import matmul
from tests.tuning.fakes import FakeMeasurer
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.backends import backend_of, rules_added
from tensorsmith.cli import app
from tensorsmith.errors import UserError
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.prior import PriorModel
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.ops import conv
from tensorsmith.records.keys import Timing, candidate_key
from tensorsmith.records.record import FINALS
from tensorsmith.records.store import Store
from tensorsmith.search import transfer
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.policies.tensorsmith import Settings, TensorsmithPolicy
from tensorsmith.search.policy import Preset
from tensorsmith.space.rules.base import Verdict, simple_nest
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native
from tensorsmith.testing import check_policy, promise
from tensorsmith.tuning.tasks import formulation

WORKLOAD = matmul()
TIMING = Timing("warm", native().cores)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[FakeMeasurer]:
    """The measurers of all runs, one for each formulation; no worker ever starts."""
    made: list[FakeMeasurer] = []

    def make(*given: Any, **options: Any) -> FakeMeasurer:
        made.append(FakeMeasurer(lambda n: 1e-5 * (1 + n % 7)))
        return made[-1]

    monkeypatch.setattr(formulation, "Measurer", make)
    monkeypatch.setattr("tensorsmith.measure.workshop.Workshop.start", lambda self: None)
    return made


def tune(workload: Any = WORKLOAD, trials: int = 16, **options: Any) -> None:
    ts.tune(workload, trials=trials, on_progress=lambda p: None, **options)


def small(space: Any, **given: Any) -> TensorsmithPolicy:
    """Ours with a small population."""
    return TensorsmithPolicy(space, settings=Settings(population=48, generations=1, structures=3, new_structures=2), **given)


class Few(RandomPolicy):
    """Has three candidates in all."""

    left = 3

    def ask(self, count: int, stop: Callable[[], bool] = lambda: False) -> list[Candidate]:
        found = super().ask(min(count, self.left), stop) if self.left else []
        self.left -= len(found)
        return found


class Simple:
    """Everything in simple loops."""

    name = "simple"

    def condition(self, state: Any, index: int, target: Any) -> Verdict:
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: Any, index: int, target: Any) -> Any:
        return [(state.with_nest(simple_nest(state.stage(index))), index - 1)]


SIMPLE = simple_nest(WORKLOAD.stages[-1])


def structures(fake: FakeMeasurer) -> set[str]:
    return {c.sketch.nest(WORKLOAD.outputs[0]).loops for c in fake.measured}


def test_a_policy_by_name_as_a_class_or_as_a_preset(fakes: list[FakeMeasurer]) -> None:
    for policy in ("random", RandomPolicy, Preset("own", RandomPolicy, model="random", transfer=False)):
        tune(policy=policy, seed=3)
    first, *others = ([candidate_key(c) for c in f.measured] for f in fakes)
    assert len(first) == 16 and others == [first, first]
    tune(policy=small, seed=3)
    assert [candidate_key(c) for c in fakes[-1].measured] != first


def test_a_policy_that_runs_out_ends_the_run_with_a_word(fakes: list[FakeMeasurer], capsys: pytest.CaptureFixture[str]) -> None:
    ts.tune(WORKLOAD, trials=16, policy=Few)
    assert len(fakes[0].measured) == 3
    assert "nothing is left to try: the policy has no other candidates" in capsys.readouterr().out


def test_a_policy_with_a_space_of_its_own_says_how_large_it_is_and_when_it_is_exhausted(
    fakes: list[FakeMeasurer], capsys: pytest.CaptureFixture[str]
) -> None:
    """17 x 24 results of 13 products each: 3 * 30 * 2 * 1 points of one template, 2 * 8 * 2 of the other."""
    ts.tune(promise.matmul(), trials=400, policy="autotvm-grid")
    said = capsys.readouterr().out
    assert "result: autotvm-grid has 212 programs to choose from" in said
    assert "nothing is left to try: the policy has no other candidates, of 212 programs" in said
    assert 50 < len(fakes[0].measured) < 212  # some are the same program, some too large


@pytest.mark.parametrize("policy", ["autotvm-random", "flextensor", "metaschedule-replay", "halide-beam"])
def test_policies_of_other_systems_tune(fakes: list[FakeMeasurer], policy: str) -> None:
    tune(policy=policy, trials=8)
    assert len(fakes[0].measured) == 8


def test_the_policy_brings_its_rules_and_its_model(fakes: list[FakeMeasurer]) -> None:
    given: list[Any] = []

    def make(space: Any, **options: Any) -> RandomPolicy:
        given.append((space, options["model"]))
        return RandomPolicy(space, **options)

    tune(policy=Preset("own", make, rules=[Simple()], model="prior"))
    tune(policy=Preset("own", make, rules=[Simple()], model="prior"), rules="ansor", model="random")
    (mine, prior), (ansor, random) = given
    assert isinstance(prior, PriorModel) and random.kind == "random"
    assert [p.sketch.brief() for p in mine.plans] == [s.brief() for s in ts.sketches(WORKLOAD, rules=[Simple()])]
    assert [p.sketch.brief() for p in ansor.plans] == [s.brief() for s in ts.sketches(WORKLOAD, rules="ansor")]


def test_rules_given_and_rules_registered(fakes: list[FakeMeasurer]) -> None:
    tune(policy="random", rules=[Simple()])
    with rules_added(Simple()):
        tune(policy="random")
    tune(policy="random")
    given, registered, ours = map(structures, fakes)
    assert given == registered == {SIMPLE.loops} and SIMPLE.loops not in ours


def test_records_of_any_rules_are_built_upon(fakes: list[FakeMeasurer], tmp_path: Path) -> None:
    """What Ansor's rules have found is neither lost nor measured again, and `compile` uses the best of all."""
    database = tmp_path / "tune.db"
    tune(policy="random", rules="ansor", database=database)
    tune(policy=small, rules="default", database=database)
    tune(policy="random", rules="ansor", database=database)
    with Store.open(database) as store:
        history = [r for r in store.history(WORKLOAD, native(), TIMING) if r.run not in FINALS]
    assert len(history) == 48 == len({r.key for r in history})
    assert callable(ts.compile(WORKLOAD, database=database))


class Watched(TreeModel):
    """Notes what it is asked, in all of its forks."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__(TreeSettings(loss="paper", warm=4))
        self.calls = calls

    def update(self, samples: Samples) -> None:
        self.calls.append(f"update {len(samples)}")
        super().update(samples)

    def fork(self, seed: int = 0) -> Watched:
        self.calls.append("fork")
        new = Watched(self.calls)
        new.kept = new.booster = self.booster
        return new


def test_a_model_of_ones_own(fakes: list[FakeMeasurer]) -> None:
    calls: list[str] = []
    model = Watched(calls)
    tune(policy=small, model=model, trials=32)
    assert calls[0] == "fork" and "update 8" in calls and not model.ready()  # the search has learned, in a fork


def test_a_saved_model_is_where_the_search_begins(fakes: list[FakeMeasurer], tmp_path: Path) -> None:
    """Learned from records, saved, and given to another search as a file."""
    database, path = tmp_path / "tune.db", tmp_path / "model"
    tune(policy="random", trials=40, database=database)
    with Store.open(database) as store:
        taught = transfer.learn([r.trial for r in store.history(WORKLOAD, native(), TIMING)], native(), TreeModel())
    taught.model.save(path, backend_of(native()).schema)
    seen: list[bool] = []

    def make(space: Any, **options: Any) -> RandomPolicy:
        seen.append(options["model"].ready())
        return RandomPolicy(space, **options)

    for model in (path, str(path), None):
        tune(policy=make, model=model, trials=8)
    assert seen == [True, True, False]


def test_formulations(fakes: list[FakeMeasurer]) -> None:
    x = ts.placeholder((1, 16, 16, 16), name="x")
    weight = ts.placeholder((3, 3, 16, 16), name="weight", constant=True)
    layer = [x, weight, conv.conv2d(x, weight, 1, 1)]
    tune(layer, policy="random", trials=24, formulations="direct")
    assert len(fakes) == 1 and len(fakes[0].measured) == 24
    tune(layer, policy="random", trials=24)
    assert len(fakes) == 4  # the direct one, and Winograd's two
    rng = np.random.default_rng(0)
    a, b = rng.random((1, 16, 16, 16), np.float32), rng.random((3, 3, 16, 16), np.float32)
    direct, any_ = (ts.compile(layer, formulations=which) for which in ("direct", "all"))
    np.testing.assert_allclose(direct(a, b), any_(a, b), rtol=1e-3)
    assert "winograd" not in direct.program and direct.program != any_.program
    with pytest.raises(ts.UserError, match="there is no formulation 'some'; known are all, direct"):
        ts.compile(layer, formulations="some")


class WithStop(RandomPolicy):
    """As docs/plugins.md writes it: `stop` has no default."""

    def ask(self, count: int, stop: Callable[[], bool]) -> list[Candidate]:  # type: ignore[override]
        return super().ask(count, stop)


@pytest.mark.parametrize(
    "gives, said",
    [
        (lambda self, count, stop: None, "policy Odd: ask(...) gave None; it has to give a list of Candidate"),
        (lambda self, count, stop: iter(()), "policy Odd: ask(...) gave a tuple_iterator;"),
        (lambda self, count, stop: ["C"], "policy Odd: ask(...) gave a list with a str in it;"),
    ],
)
def test_what_ask_must_give_is_said_with_the_policys_name(fakes: list[FakeMeasurer], gives: Any, said: str) -> None:
    odd = type("Odd", (RandomPolicy,), {"ask": gives})
    with pytest.raises(UserError) as problem:
        tune(policy=odd)
    assert said in str(problem.value)


def test_stop_needs_no_default(fakes: list[FakeMeasurer]) -> None:
    tune(policy=WithStop, trials=8)
    assert len(fakes[0].measured) == 8
    check_policy(WithStop)


def test_rules_have_a_place_for_sketches_as_for_tune(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from tests.tuning.test_plugins import Simple\nRULES = [Simple()]\n")
    found = ts.sketches(WORKLOAD, rules=f"{file}:RULES")
    assert [s.brief() for s in found] == [s.brief() for s in ts.sketches(WORKLOAD, rules=[Simple()])]
    said = CliRunner().invoke(app, ["sketches", "GMM-1-b1", "--rules", f"{file}:RULES"])
    assert said.exit_code == 0 and "sketch 0 of 1" in said.output
