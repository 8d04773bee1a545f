"""The comparison of policies: curves, medians, ratios, and what the command refuses. Nothing is measured here."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tensorsmith.backends import space_of
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.policies.ansor import LIMITED_RULES
from tensorsmith.search.policies.tensorsmith import TensorsmithPolicy
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native


def script() -> ModuleType:
    """`benchmarks/search.py`, which is no part of a package."""
    path = Path(__file__).parents[2] / "benchmarks" / "search.py"
    spec = importlib.util.spec_from_file_location("benchmarks_search", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = script()
WORKLOAD = catalogue.get("GMM-small").workload()
SMALL = {"population": 48, "generations": 1}


def pretended(candidates: Sequence[Candidate]) -> list[Trial]:
    """Times that follow from the candidate alone, one in ten a failure."""
    found = []
    for c in candidates:
        number = sum(map(ord, json.dumps(c.to_json(), sort_keys=True, default=int))) % 1000
        bad = number % 10 == 0
        found.append(Trial(c, Status.CRASHED if bad else Status.OK, None if bad else 1e-3 + 1e-6 * number, build_seconds=0.1))
    return found


def variant(name: str) -> object:
    v = bench.VARIANTS[name]
    if v.settings is None:
        return v
    return replace(v, settings=replace(v.settings, **{**SMALL, **({"generations": 0} if not v.settings.generations else {})}))


@pytest.mark.parametrize("name", sorted(bench.VARIANTS))
def test_every_variant_runs(name: str) -> None:
    curve = bench.run(WORKLOAD, variant(name), 20, 0, pretended)
    assert len(curve.best) == len(curve.spent) == 20
    known = [b for b in curve.best if b is not None]
    assert known == sorted(known, reverse=True)  # best so far never rises
    assert curve.spent == sorted(curve.spent) and curve.spent[-1] >= 20 * 0.1 / native().cores
    assert curve.winner is not None and pretended([curve.winner])[0].seconds == curve.best[-1]


def test_the_same_seed_gives_the_same_curve() -> None:
    first, second = (bench.run(WORKLOAD, variant("full"), 24, 3, pretended).best for _ in range(2))
    assert first == second


def test_the_small_space_can_be_lowered() -> None:
    space = space_of(catalogue.get("C2D-small").workload(), native(), LIMITED_RULES)
    for candidate in TensorsmithPolicy(space, settings=replace(bench.SETTINGS, **SMALL)).ask(6):
        lower(candidate)


def test_ratios_are_to_the_best_of_all() -> None:
    def curve(*best: float | None) -> object:
        return bench.Curve(list(best), [1.0 * n for n in range(len(best))])

    curves = {"full": [curve(None, 4.0, 2.0), curve(4.0, 4.0, 1.0), curve(8.0, 8.0, 4.0)], "random": [curve(8.0, 8.0, 8.0)]}
    found = bench.summary(curves, {}, [1, 2, 3])
    assert "ratio_at_1" not in found["full"]  # one run had nothing yet
    assert found["full"]["ratio_at_2"] == 0.25 and found["full"]["ratio_at_3"] == 0.5
    assert found["random"]["ratio_at_3"] == 0.125
    assert found["full"]["seconds_searching"] == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "full,magic"], "there is no magic"),
        (["--replay"], "--replay needs a --database"),
        (["--trials", "0"], "1 or more"),
    ],
)
def test_refusals(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.parse(arguments)
    assert message in capsys.readouterr().err


def test_a_plot_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit):
        bench.parse(["--plot", "curves.png"])
    assert "pip install '.[bench]'" in capsys.readouterr().err


def test_accuracy_and_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "VARIANTS", {name: variant(name) for name in ("full", "random")})
    trials: list[Trial] = []  # a table of measurements, as a run of random search leaves it

    def noting(candidates: Sequence[Candidate]) -> list[Trial]:
        found = pretended(candidates)
        trials.extend(found)
        return found

    bench.run(WORKLOAD, variant("random"), 64, 0, noting)
    figures = bench.accuracy(trials)
    assert figures["programs"] == len(trials) and {"rank_pairwise", "paper_recall_at_30", "log_r2"} <= set(figures)
    assert all(0 <= v <= 1 for name, v in figures.items() if name != "programs")
    with Store.open(tmp_path / "table.db") as store:
        store.add(WORKLOAD, native(), Timing("warm", native().cores), trials)
    given = ["--workload", "GMM-small", "--database", str(tmp_path / "table.db"), "--json", str(tmp_path / "out.json")]
    bench.main([*given, "--replay", "--only", "full,random", "--trials", "16", "--seeds", "2"])
    report = json.loads((tmp_path / "out.json").read_text())["GMM-small"]
    assert set(report) == {"full", "random"} and len(report["full"]["curves"]) == 2
    assert max(row["ratio_at_16"] for row in report.values()) <= 1.0
    assert "GMM-small" in capsys.readouterr().out
