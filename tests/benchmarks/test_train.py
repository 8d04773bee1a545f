"""Learning a model for the package from records, which are made up here: what has larger tiles is faster."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import train
from tensorsmith.backends import backend_of, space_of
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.learn.models.ensemble import EnsembleModel, Sure
from tensorsmith.ops import catalogue
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

CASES = ("GMM-small", "matmul-small", "dense-small", "C1D-small", "DEP-small", "NRM-small", "softmax-small", "add-small")


def seconds(candidate: Candidate) -> float:
    return 1e-4 / (1 + sum(float(x) for x in candidate.decisions.values() if x > 0))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default schedule and 24 programs of each of some workloads; one of them twice, the first time slower."""
    path, target = tmp_path_factory.mktemp("records") / "records.db", native()
    with Store.open(path) as store:
        for name in CASES:
            space = space_of(catalogue.get(name).workload(), target)
            default = backend_of(target).default_candidate(space.workload, target)
            drawn = space.candidates(sample(space, 80, np.random.default_rng(0)))
            candidates = [default, *list({str(c.to_json()): c for c in drawn}.values())[:24]]
            trials = [Trial(candidates[1], Status.OK, 1.0), *(Trial(c, Status.OK, seconds(c)) for c in candidates)]
            store.add(space.workload, target, Timing("warm", target.cores), trials)
    return path


def test_each_program_is_known_once_by_its_least_time(records: Path) -> None:
    known = train.read(str(records))
    assert len(known) >= 6
    for one in known:
        assert one.seconds.max() < 0.5 and one.default is not None
        assert one.throughput.max() == 1.0 and len(one.rows) == len(one.seconds) == len(one.base)
        assert np.unique(one.seconds).size > 3


def test_a_model_is_learned_and_stored_with_its_rule(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cpu.model"
    options = ["--splits", "2", "--members", "3", "--trees", "20", "--models", "prior", "--json", str(tmp_path / "figures.json")]
    train.main([str(records), "--out", str(out), *options])
    said = capsys.readouterr().out
    assert "workloads not learned from" in said and "cpu.model" in said
    model = EnsembleModel.load(out, SCHEMA)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [model.sure.doubt, model.sure.margin] == figures["sure"]
    assert set(figures["models"]) == {"ensemble", "prior"} and len(model.members) == 3


def test_tested_workloads_are_not_learned_from() -> None:
    """Of ten workloads, each measured on two machines."""
    known = [train.Known(f"{n} {m}", str(n), [], np.zeros(0), np.ones(1), None) for n in range(10) for m in range(2)]
    parts = train.split(known, 3, seed=0)
    assert sorted(k.key for _, tested in parts for k in tested) == sorted(k.key for k in known)
    assert all(not {k.workload for k in learned} & {k.workload for k in tested} for learned, tested in parts)


def test_the_rule_is_the_best_of_those_that_are_careful() -> None:
    bold, careful, timid = np.full(100, 1.5), np.full(100, 1.1), np.ones(100)
    bold[:5] = 0.5
    assert train.rule({(0.5, 0.05): bold, (1.0, 0.1): careful, (2.0, 0.2): timid}) == Sure(1.0, 0.1)
    assert train.rule({(0.5, 0.05): bold}) == Sure(max(train._DOUBTS), max(train._MARGINS))
    assert train.rule({(0.5, 0.05): np.full(9, 1.005)}) == Sure(max(train._DOUBTS), max(train._MARGINS))  # not worth it


def test_what_is_chosen_is_compared_with_the_default_schedule() -> None:
    one = train.Known("w", "w", [], np.zeros(3), np.array([2.0, 1.0, 4.0]), default=0)  # all alike by the prior
    model = EnsembleModel()
    opinions = np.tile([0.0, 0.5, -1.0], (5, 1))
    assert train.chosen(model, one, opinions, Sure(1.0, 0.1)) == 2.0
    assert train.chosen(model, one, opinions, Sure(1.0, 0.6)) == 1.0
    assert train.chosen(model, one, -opinions, Sure(1.0, 0.6)) == 0.5


def test_too_few_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "empty.db"):
        pass
    with pytest.raises(SystemExit):
        train.main([str(tmp_path / "empty.db")])
    assert "collect more first" in capsys.readouterr().err
