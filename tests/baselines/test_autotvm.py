"""AutoTVM as a policy: it learns, runs out with a word, takes other models, and begins better with what others taught."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of, space_of
from tensorsmith.baselines.annealing import Annealing
from tensorsmith.baselines.autotvm import policy as autotvm
from tensorsmith.baselines.autotvm.bagged import BaggedModel, Doubt
from tensorsmith.baselines.autotvm.policy import AutoTvmPolicy
from tensorsmith.baselines.autotvm.template_model import TemplateModel, TemplateSettings
from tensorsmith.baselines.autotvm.templates import templates_of
from tensorsmith.baselines.tuners import ModelBased
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.learn.models.registry import as_model
from tensorsmith.ops import catalogue, linalg
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.population import Space
from tensorsmith.space.rules.root import AtTheRoot
from tensorsmith.space.sketch.sketch import Candidate

TARGET = target()
QUICK = autotvm.Settings(by_model=ModelBased(plan=16, annealing=Annealing(chains=16, steps=20)))


def space(rows: int = 96, columns: int = 96, depth: int = 64) -> Space:
    a, b = placeholder((rows, depth), name="a"), placeholder((depth, columns), name="b")
    return space_of(workload([a, b, linalg.matmul(a, b)]), TARGET, (AtTheRoot(),))


def cost(candidate: Candidate) -> float:
    """Register tiles of 4 by 32 are the best, and long inner loops of the reduction: whatever the shape."""
    d = candidate.decisions
    rows, columns = (d.get(f"matmul.{a}.2", d[f"matmul.{a}.1"]) for a in ("i", "j"))
    return 1e-4 * (1 + abs(np.log2(rows / 4)) + abs(np.log2(columns / 32)) + 0.2 * np.log2(64 / d["matmul.k.1"]))


def trial(candidate: Candidate) -> Trial:
    return Trial(candidate, Status.OK, cost(candidate))


def searched(policy: AutoTvmPolicy, rounds: int) -> list[float]:
    """The mean cost of what was asked for, round by round."""
    found = []
    for _ in range(rounds):
        asked = policy.ask(32)
        policy.tell([trial(c) for c in asked])
        found.append(float(np.mean([cost(c) for c in asked])))
    return found


@pytest.mark.parametrize("features", ["itervar", "knob", "curve"])
def test_what_is_asked_for_gets_better(features: str) -> None:
    model = TemplateModel(TemplateSettings(features=features))
    first, *_, last = searched(AutoTvmPolicy(space(), seed=1, model=model, settings=QUICK), 4)
    assert last < 0.8 * first


@pytest.mark.parametrize("acquisition", ["ei", "ucb"])
def test_what_is_asked_for_gets_better_by_what_it_promises(acquisition: str) -> None:
    model = BaggedModel(doubt=Doubt(acquisition))
    first, *_, last = searched(AutoTvmPolicy(space(), seed=1, model=model, settings=QUICK), 4)
    assert last < 0.8 * first


def test_another_model_sees_our_features() -> None:
    seen = []

    class Spy:
        """Trees of ours that note how many features they are asked about."""

        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def fork(self, seed: int = 0) -> Spy:
            return Spy(self.inner.fork(seed))  # type: ignore[attr-defined]

        def predict(self, rows: object, base: object) -> object:
            seen.append(rows.values.shape[1])  # type: ignore[attr-defined]
            return self.inner.predict(rows, base)  # type: ignore[attr-defined]

    schema = backend_of(TARGET).schema
    policy = AutoTvmPolicy(space(), seed=1, model=Spy(as_model("trees", schema)), settings=QUICK)  # type: ignore[arg-type]
    first, *_, last = searched(policy, 3)
    assert set(seen) == {len(schema)} and last < first


def test_both_templates_of_a_matrix_product_are_tuned_in_turns() -> None:
    policy = AutoTvmPolicy(space(), seed=0, settings=replace(QUICK, tuner="random"))
    kinds = [len(c.sketch.nest("matmul").outer) for c in policy.ask(10)]
    assert kinds == [4, 2] * 5 and policy.programs == sum(t.size for t in policy.templates)


def test_nothing_tunable_is_one_program() -> None:
    policy = AutoTvmPolicy(space_of(catalogue.get("NRM-small").workload(), TARGET, (AtTheRoot(),)), seed=0)
    assert policy.programs == 1 and len(policy.ask(8)) == 1 and policy.ask(8) == []


# -- transfer ------------------------------------------------------------------------------------------------------------------


def trials_of(where: Space, count: int) -> list[Trial]:
    rng = np.random.default_rng(0)
    found = []
    for template in templates_of(where):
        points = [template.random(rng) for _ in range(2 * count)]
        found += [trial(template.candidate(p)) for p, ok in zip(points, template.valid(points)) if ok][:count]
    return found


def test_a_search_begins_better_with_what_other_shapes_taught() -> None:
    known = [t for shape in ((64, 64, 64), (128, 64, 64)) for t in trials_of(space(*shape), 260)]
    taught = autotvm.teach(known, TARGET, TemplateModel(TemplateSettings(features="curve")))
    assert taught is not None and set(taught.model.bases) == {"dense_pack"}  # type: ignore[attr-defined]  # of the other: too few
    firsts = []
    for model in (TemplateModel(TemplateSettings(features="curve")), taught.model_for(space().workload)):
        assert model is not None
        policy = AutoTvmPolicy(space(), seed=2, model=model, settings=QUICK)
        firsts.append(np.mean([cost(c) for c in policy.ask(24)]))
    alone, helped = firsts
    assert helped < 0.8 * alone


def test_too_few_records_teach_nothing() -> None:
    assert autotvm.teach(trials_of(space(64, 64, 64), 100), TARGET, TemplateModel()) is None


def test_presets_differ_in_what_they_say() -> None:
    settings = {
        p.name: p.make.keywords["settings"]
        for p in (autotvm.GRID, autotvm.GA, autotvm.DIVERSE, autotvm.DIVERSE_PAPER, autotvm.PRESET)
        if isinstance(p.make, partial)
    }
    assert [settings[n].tuner for n in ("autotvm-grid", "autotvm-ga")] == ["grid", "ga"]
    filters = {n: (settings[n].by_model.diversity, settings[n].by_model.alpha) for n in settings}
    assert filters["autotvm-diverse"] == (2.0, 0.0) and filters["autotvm-diverse-paper"] == (2.0, 1.0)
    assert filters["autotvm"] == (0.0, 0.0)  # the source's default: no filter
    doubts = [p.model.doubt.acquisition for p in (autotvm.EI, autotvm.UCB) if isinstance(p.model, BaggedModel)]
    assert doubts == ["ei", "ucb"]
    models = {p.name: p.model for p in (autotvm.PRESET, autotvm.PAPER, autotvm.RANK, autotvm.CURVE)}
    assert {n: (m.features, m.settings.trees.loss) for n, m in models.items() if isinstance(m, TemplateModel)} == {
        "autotvm": ("itervar", "regression"),
        "autotvm-paper": ("knob", "regression"),
        "autotvm-rank": ("itervar", "pairs"),
        "autotvm-curve": ("curve", "regression"),
    }
