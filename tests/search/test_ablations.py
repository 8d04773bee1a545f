"""Each ablation of our policy lacks the part that its name says, and that alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of, space_of
from tensorsmith.learn.models.prior import PriorModel
from tensorsmith.learn.models.registry import as_model
from tensorsmith.ops import catalogue
from tensorsmith.search.policies import tensorsmith as module
from tensorsmith.search.policies.tensorsmith import SETTINGS, TensorsmithPolicy
from tensorsmith.search.policy import POLICIES, Preset, as_preset
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.adapt import adapt
from tensorsmith.space.population.population import Population, Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate

NAMES = [name for name in POLICIES.names() if name.startswith("tensorsmith-")]
FEW = {"population": 64, "structures": 4, "new_structures": 2}


def settings(name: str) -> module.Settings:
    made = as_preset(name).make
    return made.keywords["settings"] if isinstance(made, partial) else SETTINGS


def policy(name: str, space: Space, hints: Sequence[Candidate] = ()) -> TensorsmithPolicy:
    model = as_model(as_preset(name).model, backend_of(space.target).schema).fork(0)
    return TensorsmithPolicy(space, hints=hints, model=model, settings=replace(settings(name), **FEW))


def space(name: str = "GMM-small") -> Space:
    return space_of(catalogue.get(name).workload(), target())


def told(one: TensorsmithPolicy, count: int = 16) -> None:
    one.tell([Trial(c, Status.OK, 1e-3 + 1e-5 * n) for n, c in enumerate(one.ask(count))])


def test_there_is_one_for_each_part() -> None:
    parts = ("seeds", "prior", "trees", "evolution", "descent", "pretrained", "transfer")
    assert [*(f"tensorsmith-no{part}" for part in parts), "tensorsmith-crossover"] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_differs_in_one_thing(name: str) -> None:
    mine, ours = as_preset(name), as_preset("tensorsmith")
    changed = [f.name for f in fields(SETTINGS) if getattr(settings(name), f.name) != getattr(SETTINGS, f.name)]
    alone = name == "tensorsmith-nopretrained"  # else what goes with the model goes with it
    assert len(changed) + (mine.model != ours.model) + alone == 1
    assert mine.pretrained == (name not in ("tensorsmith-nopretrained", "tensorsmith-noprior", "tensorsmith-notrees"))
    assert mine.rules == ours.rules
    assert mine.transfer == (name not in ("tensorsmith-notransfer", "tensorsmith-noprior"))


def calls(monkeypatch: pytest.MonkeyPatch, function: str) -> list[str]:
    """Grows whenever a function of the policy's module is called."""
    found: list[str] = []
    original = getattr(module, function)

    def noting(*given: Any, **more: Any) -> Any:
        found.append(function)
        return original(*given, **more)

    monkeypatch.setattr(module, function, noting)
    return found


@pytest.mark.parametrize(
    ("name", "function"),
    [("noseeds", "seeds"), ("noevolution", "mutate")],
)
def test_the_part_is_never_asked(name: str, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = calls(monkeypatch, function)
    for who, expected in ((f"tensorsmith-{name}", False), ("tensorsmith", True)):
        noted.clear()
        one = policy(who, space())
        told(one)
        assert one.ask(16)
        assert bool(noted) is expected


def test_children_have_two_parents_only_with_crossover(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = calls(monkeypatch, "offspring")
    for who, expected in (("tensorsmith", False), ("tensorsmith-crossover", True)):
        one = policy(who, space())
        told(one)
        assert one.ask(16) and bool(noted) is expected


def test_without_descent_nothing_is_near_the_best() -> None:
    found: dict[str, list[Candidate]] = {}
    for name in ("tensorsmith", "tensorsmith-nodescent"):
        one = policy(name, space())
        told(one)
        found[name] = one.finish(8)
    assert found["tensorsmith"] and not found["tensorsmith-nodescent"]


def test_without_trees_nothing_is_learned() -> None:
    one = policy("tensorsmith-notrees", space())
    told(one, 32)
    assert isinstance(one.model, PriorModel)


def test_without_the_prior_scores_are_random_and_then_the_trees_own(monkeypatch: pytest.MonkeyPatch) -> None:
    where = space()
    one = policy("tensorsmith-noprior", where)
    rows = sample(where, 64, np.random.default_rng(0))
    first, again = (np.concatenate(one._scores(rows)) for _ in range(2))
    assert not np.array_equal(first, again), "nothing is known of them"
    told(one, 32)
    one._scores(rows)
    assert one.model.ready()
    assert all(t.prior == 0.0 for t in one.told.values())
    bases: list[float] = []
    predict = one.model.predict

    def noting(given: Any, base: Any = 0.0) -> Any:
        bases.extend(np.ravel(base).tolist())
        return predict(given, base)

    monkeypatch.setattr(one.model, "predict", noting)
    one.scorer.forget()
    one._scores([Population(p.plan, p.matrix) for p in rows])
    assert bases and not any(bases)
    ours = policy("tensorsmith", where)
    told(ours, 32)
    assert any(t.prior for t in ours.told.values())


def test_without_transfer_nothing_of_other_workloads_is_tried() -> None:
    here, there = space("GMM-small"), space_of(catalogue.get("GMM-1-b1").workload(), target())
    hints = list(there.candidates(sample(there, 4, np.random.default_rng(0))))
    expected = {str(here.plans[p].candidate(row).to_json()) for hint in hints for p, row in adapt(here, hint)}
    asked = {}
    for name in ("tensorsmith", "tensorsmith-notransfer"):
        one = policy(name, here, hints)
        one.hint(hints)
        asked[name] = {str(c.to_json()) for c in one.ask(6)}
    assert expected & asked["tensorsmith"] and not expected & asked["tensorsmith-notransfer"]
    assert not as_preset("tensorsmith-notransfer").transfer


def test_a_preset_is_what_the_name_says() -> None:
    assert all(isinstance(as_preset(name), Preset) and as_preset(name).name == name for name in NAMES)
