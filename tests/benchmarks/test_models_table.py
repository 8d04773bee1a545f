"""The table of cost models, from records that are made up: the prior's own speed, and how far a tile is from one size."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tensorsmith.backends import space_of
from tensorsmith.ops import catalogue
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import native


def script() -> ModuleType:
    """`benchmarks/models_table.py`, which is no part of a package."""
    path = Path(__file__).parents[2] / "benchmarks" / "models_table.py"
    spec = importlib.util.spec_from_file_location("benchmarks_models_table", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = script()


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 programs of each of three workloads; the larger the tiles, the faster."""
    path = tmp_path_factory.mktemp("records") / "tune.db"
    target = native()
    with Store.open(path) as store:
        for name in ("GMM-small", "matmul-small", "dense-small"):
            space = space_of(catalogue.get(name).workload(), target)
            rng = np.random.default_rng(0)
            candidates = list({str(c.to_json()): c for c in space.candidates(sample(space, 240, rng))}.values())[:120]
            trials = [Trial(c, Status.OK, 1e-4 / np.prod([float(x) for x in c.decisions.values() if x > 0])) for c in candidates]
            store.add(space.workload, target, Timing("warm", target.cores), trials)
    return path


def test_models_learn_and_are_tested_on_other_programs(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main([str(records), "--models", "trees,mlp,random", "--json", str(tmp_path / "table.json")])
    said = capsys.readouterr().out
    assert "120 programs of 3 workloads, learned from 240" in said and "recall at 30" in said
    report = json.loads((tmp_path / "table.json").read_text())
    assert all(row["workloads"] == 3 for row in report.values())
    assert report["trees"]["pairwise"] > report["random"]["pairwise"] + 0.15
    assert report["mlp"]["pairwise"] > report["random"]["pairwise"] + 0.05


def test_workloads_are_held_out_as_a_whole(records: Path) -> None:
    with Store.open(records) as store:
        programs = bench.read(store, native())
    learned, tested = bench.divided(programs, "workloads", 0)
    assert len(tested) == 1 and len(learned) == 2 and not {p.key for p in learned} & {p.key for p in tested}
    assert 0.0 <= bench.figures("trees", learned, tested, native(), "workloads")["pairwise"] <= 1.0


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main([str(tmp_path / "none.db")])
    assert "there is no file" in capsys.readouterr().err
    with Store.open(tmp_path / "empty.db"):
        pass
    with pytest.raises(SystemExit):
        bench.main([str(tmp_path / "empty.db")])
    assert "has 0 workloads with 24 timed programs" in capsys.readouterr().err
