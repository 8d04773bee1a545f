"""The paper by one command: plans, rows, what goes wrong is said, and what is done is kept. One small case is really searched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import models
import paper
import paper_runs
import tensorsmith as ts
from models import Network
from network_overhead import SIZE, chain
from paper_figures import Bars, Curves, Line, Timed
from paper_runs import Plan, formulations_of, middle, policy_of, search_workload, timed
from resume import Outcome
from rows import OURS, UNTUNED
from tensorsmith.ops import catalogue
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import FINALS
from tensorsmith.records.store import Store
from tensorsmith.search.policy import POLICIES
from tensorsmith.targets.target import native


def plan(out: Path, **more: Any) -> Plan:
    return Plan(out, **{"trials": 4, "systems": ("autotvm", OURS), "peers": (), "say": lambda text: None, **more})


def test_every_system_of_the_paper_is_a_policy() -> None:
    assert set(paper_runs.POLICY_OF.values()) <= set(POLICIES.names())
    assert set(paper_runs.ABLATED) <= set(POLICIES.names())
    with pytest.raises(SystemExit, match="there is no system 'magic'"):
        policy_of("magic")
    assert formulations_of(OURS) == "all" and formulations_of("ansor") == "direct"


def test_the_median_seed_takes_part() -> None:
    outcomes = [Outcome(((4, 1.0, best),)) for best in (5.0, 1.0, 3.0)]
    best = [outcome.best for outcome in outcomes]
    assert middle(best) == 2 and middle([*best, None]) == 2 and middle([None]) is None


def test_a_row_says_what_each_system_takes_in_its_fastest_form() -> None:
    row = {
        "seconds": {"torch first": 4.0, "torch last packed": 2.0, "ansor": 3.0, OURS: 1.5, UNTUNED: 1.6, f"{OURS} code alone": 1.0},
        "notes": {"onnxruntime": "not installed"},
        "disturbed": 0.25,
    }
    found = timed("a", "g", row, ("torch", "ansor", "autotvm", OURS), {"autotvm": "ended after 3 of 9 trials"})
    assert found.seconds == {"torch": 2.0, "ansor": 3.0, OURS: 1.5, UNTUNED: 1.6}
    assert found.notes["autotvm"] == "ended after 3 of 9 trials" and "25%" in found.notes["timing"]
    same = timed("a", "g", {"seconds": {OURS: 1.5}, "same_program": True, "error": "no"}, (OURS,), {})
    assert same.seconds == {OURS: 1.5, UNTUNED: 1.5} and same.notes[OURS] == "no"


def test_a_search_that_fails_or_ends_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = catalogue.get("GMM-small").workload()

    class Told:
        trials, elapsed, best_seconds = 3, 1.0, 1e-5

    def ending(*given: Any, on_progress: Callable[[Any], None], **more: Any) -> None:
        on_progress(Told())

    monkeypatch.setattr(ts, "tune", ending)
    ended = search_workload(plan(tmp_path), "GMM-small", workload, "autotvm", 0)
    assert ended.note.startswith("ended after 3 of 4 trials, of a space of ") and ended.best == 1e-5

    def broken(*given: Any, **more: Any) -> None:
        raise ValueError("cannot")

    monkeypatch.setattr(ts, "tune", broken)
    failed = search_workload(plan(tmp_path), "GMM-small", workload, "ansor", 0)
    assert failed.note == "failed: ValueError: cannot" and failed.best is None


def test_one_case_is_searched_timed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    case = catalogue.get("GMM-small")
    budget = plan(tmp_path, systems=("random", OURS), timing=0.01, say=said.append)
    found = paper_runs.timed_case(budget, case)
    assert set(found.seconds) >= {"random", OURS} and found.group == "GMM" and all(s > 0 for s in found.seconds.values())
    assert len(said) == 2
    for system in ("random", OURS):
        assert (tmp_path / "records" / "GMM-small" / f"{system}-0.db").exists()
    with Store.open(paper_runs.records_of(budget, "GMM-small", "random", 0), read_only=True) as store:
        alone = store.history(case.workload(), native(), Timing("warm", native().cores))
    with Store.open(tmp_path / "records" / "GMM-small" / "random-0.db", read_only=True) as store:
        every = store.history(case.workload(), native(), Timing("warm", native().cores))
    assert {r.key for r in alone} == {r.key for r in every if r.run not in FINALS} and not any(r.run in FINALS for r in alone)
    assert paper_runs.records_of(budget, "GMM-small", OURS, 0).name == f"{OURS}-0.db"

    def never(*given: Any, **more: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(ts, "tune", never)
    monkeypatch.setattr(paper_runs, "contest", never)
    assert paper_runs.timed_case(budget, case) == found


def test_a_network_is_searched_timed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(chain(2), path)
    network = Network("chain", path, {"x": np.ones((1, SIZE), np.float32)})
    monkeypatch.setitem(models.MODELS, "chain", lambda name, batch: network)
    budget = plan(tmp_path / "out", network_systems=("random", OURS), network_trials=4, timing=0.01)
    found = paper_runs.timed_network(budget, "chain", 1)
    assert set(found.seconds) >= {"random", OURS} and found.name == "chain-b1" and found.group == "chain"
    lines = paper_runs.network_lines(budget, "chain", 1)
    assert [line.system for line in lines] == ["random", OURS] and all(line.trials[-1] == 4 and line.last for line in lines)
    monkeypatch.setattr(ts, "tune", None)  # would fail if it were called
    assert paper_runs.timed_network(budget, "chain", 1) == found and paper_runs.network_lines(budget, "chain", 1) == lines


def test_an_ablation_is_searched_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = plan(tmp_path, trials=3)
    found = paper_runs.ablation(budget, ("random", "ansor-limited"), "GMM-small")
    assert [line.system for line in found] == ["random", "ansor-limited"] and all(line.trials[-1] == 3 for line in found)
    monkeypatch.setattr(paper_runs, "attempted", None)
    assert paper_runs.ablation(budget, ("random", "ansor-limited"), "GMM-small") == found


def pretended_case(plan: Plan, case: Any) -> Timed:
    return Timed(case.name, case.operator, {"torch": 2e-3, "ansor": 1.5e-3, OURS: 1e-3}, {"autotvm": "failed: E: no"})


def test_figures_are_data_first_and_can_be_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper_runs, "timed_case", pretended_case)
    lines = [Line(OURS, (1, 2), (0.1, 0.2), (2e-3, 1e-3)), Line("beam", (), (), (), "failed: E: no")]
    monkeypatch.setattr(paper_runs, "ablation", lambda plan: lines)
    words = ["--figure", "6,7", "--quick", "--systems", "ansor,autotvm", "--out", str(tmp_path)]
    assert paper.main(words) == 0
    said = capsys.readouterr().out
    assert "failed: E: no" in said and "0.67" in said
    form = json.loads((tmp_path / "figure6.json").read_text())
    assert set(form["parts"]) == {"batch 1", "batch 1, the paper"} and form["run"]["cores"] >= 1
    assert form["parts"]["batch 1"]["heights"]["GMM"] == {"torch": 0.5, "ansor": pytest.approx(2 / 3), OURS: 1.0}
    assert [c["name"] for c in form["parts"]["batch 1"]["cases"]] == [
        c["name"] for c in form["parts"]["batch 1, the paper"]["cases"]
    ]
    monkeypatch.setattr(paper_runs, "timed_case", None)
    paper.main([*words, "--redraw"])
    assert capsys.readouterr().out.count("failed: E: no") == said.count("failed: E: no")
    paper.main(["--figure", "8", "--redraw", "--out", str(tmp_path / "none")])
    assert "there is no data" in capsys.readouterr().out


@pytest.mark.peers
def test_every_figure_of_bars_and_curves_has_its_picture(tmp_path: Path) -> None:
    bars = {"batch 1": Bars("batch 1", ("torch", OURS), (Timed("GMM-1-b1", "GMM", {"torch": 2.0, OURS: 1.0}),))}
    assert [p.name for p in paper.draw("6", bars, tmp_path)] == ["figure6.svg", "figure6.png"]
    assert (tmp_path / "figure6.svg").exists()
    empty = Curves("c", "x", {"a": (Line("beam", (), (), ()),)}, {"a": 1.0})
    assert paper.draw("7", {"curves": empty}, tmp_path) == [], "there is nothing to draw"


def test_networks_and_what_it_takes_to_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(plan: Plan, name: str, batch: int) -> list[Line]:
        return [Line("autotvm", (10, 20), (9.0, 18.0), (4e-3, 3e-3)), Line(OURS, (5, 20), (2.0, 9.0), (3e-3, 2e-3))]

    def network(plan: Plan, name: str, batch: int) -> Timed:
        return Timed(f"{name}-b{batch}", name, {"torch": 4e-3, "autotvm": 3e-3, OURS: 2e-3})

    monkeypatch.setattr(paper_runs, "network_lines", lines)
    monkeypatch.setattr(paper_runs, "timed_network", network)
    paper.main(["--figure", "9,10", "--networks", "dcgan", "--trials", "8", "--out", str(tmp_path)])
    nine, ten = (json.loads((tmp_path / f"figure{n}.json").read_text())["parts"] for n in (9, 10))
    theirs = Bars.from_json(nine["batch 16, the paper"])
    assert theirs.of("dcgan")["ansor"] == 1.0 and nine["batch 1"]["heights"]["dcgan"][OURS] == 1.0
    assert ten["curves"]["reference"] == {"dcgan": 3e-3}
    assert ten["matches"]["rows"][0] == ["dcgan", OURS, "18", "2", "9.0x", "20", "5", "4.0x"]
    assert ten["matches"]["rows"][1][:5] == ["dcgan", "ansor, the paper", "4,914", "420", "11.7x"]


def test_the_table_of_models_has_the_papers_row_even_without_records(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    found = paper_runs.cost_models(plan(tmp_path))
    assert found.rows == (("the paper's, ResNet-50", "0.851", "0.624", "0.958", "-", "25,000"),) and "no workload" in found.title


def test_quick_takes_the_cheapest_shape_of_each_operator(tmp_path: Path) -> None:
    quick = paper.arguments(["--quick", "--out", str(tmp_path)])
    names = [case.name for case in quick.cases]
    assert len(names) == len(catalogue.OPERATORS) and "GMM-1-b1" in names and quick.plan.trials == paper.QUICK["trials"]
    whole = paper.arguments(["--out", str(tmp_path), "--trials", "1000", "--seeds", "3"])
    assert len(whole.cases) == 96 and whole.plan.trials == 1000 and whole.plan.seeds == 3 and len(whole.networks) == 5
    assert "halide" in whole.plan.systems and "halide" not in whole.plan.network_systems, "as in the paper"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--figure", "11"], "there is no figure '11'"),
        (["--peers", "caffe"], "there is no peer 'caffe'"),
        (["--networks", "vgg"], "there is no network 'vgg'"),
        (["--only", "XYZ"], "there is no case or operator 'XYZ'"),
        (["--batch", "2"], "--batch is of 1, 16"),
        (["--trials", "-1"], "1 or more"),
    ],
)
def test_refusals(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        paper.arguments([*words, "--out", str(tmp_path)])
    assert message in capsys.readouterr().err
