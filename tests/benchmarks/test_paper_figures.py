"""The paper's figures as data: normalised as in the paper, there and back as JSON, drawn. Nothing is measured here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import drawing
import paper_figures as figures
import paper_results
from curves import Curve
from paper_figures import Bars, Curves, Grid, Line, Timed, match, normalised, of_curves, of_outcomes
from resume import Outcome
from tensorsmith.ops import catalogue

#: PyTorch, Halide, FlexTensor, AutoTVM relative to Ansor, as the bars of the paper's figures 6 and 8 show them; batch 1, then 16
PUBLISHED = {
    "C1D": ((0.21, 0.18, 0.83, 0.55), (0.74, 0.47, 0.87, 0.53)),
    "C2D": ((0.59, 0.39, 0.54, 0.58), (0.72, 0.52, 0.77, 0.54)),
    "C3D": ((0.28, 0.39, 0.64, 0.69), (0.28, 0.40, 0.47, 0.58)),
    "GMM": ((0.71, 0.28, 0.88, 0.46), (0.99, 0.55, 0.94, 0.40)),
    "GRP": ((0.31, 0.31, 0.77, 0.51), (0.70, 0.65, 0.87, 0.46)),
    "DIL": ((0.15, 0.39, 0.70, 0.54), (0.13, 0.57, 0.82, 0.51)),
    "DEP": ((0.05, 0.09, 0.76, 0.26), (0.16, 0.42, 0.86, 0.21)),
    "T2D": ((0.22, 0.19, 0.28, 0.10), (0.19, 0.23, 0.26, 0.13)),
    "CAP": ((0.00, 0.32, 0.81, 0.48), (0.03, 0.69, 0.87, 0.45)),
    "NRM": ((0.39, 0.03, None, 0.04), (0.09, 0.08, None, 0.17)),
    "ConvLayer": ((0.29, 0.45, 0.59, 0.61), (0.52, 0.63, 0.51, 0.75)),
    "TBS": ((0.44, 0.51, None, 0.77), (0.60, 0.94, None, 0.70)),
}


@pytest.mark.parametrize("operator", PUBLISHED)
@pytest.mark.parametrize("batch", [1, 16])
def test_the_papers_own_numbers_give_the_papers_own_bars(operator: str, batch: int) -> None:
    cases = [c for c in catalogue.cases(batch).values() if c.operator == operator]
    found = normalised([paper_results.operators()[c.name] for c in cases], paper_results.OPERATOR_SYSTEMS)
    assert found["ansor"] == 1.0
    for system, wanted in zip(paper_results.OPERATOR_SYSTEMS, PUBLISHED[operator][batch == 16]):
        assert (system in found) == (wanted is not None)
        assert wanted is None or found[system] == pytest.approx(wanted, abs=0.0051)


def test_the_paper_has_a_number_for_each_case_and_network() -> None:
    assert set(paper_results.operators()) == {*catalogue.cases(1), *catalogue.cases(16)}
    assert paper_results.networks()["dcgan-b1"]["torch"] / paper_results.networks()["dcgan-b1"]["ansor"] == pytest.approx(
        3.83, abs=0.005
    )
    assert len(paper_results.networks()) == 10


def test_bars_do_not_change_with_the_unit_of_a_case_and_the_best_is_1() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        cases = [{s: float(t) for s, t in zip("abc", rng.uniform(1, 9, 3))} for _ in range(4)]
        heights = normalised(cases, "abc")
        assert max(heights.values()) == 1.0 and min(heights.values()) > 0
        scaled = [{s: t * factor for s, t in case.items()} for case, factor in zip(cases, rng.uniform(0.1, 10, 4))]
        assert normalised(scaled, "abc") == pytest.approx(heights)


def test_who_lacks_a_case_has_no_bar_and_does_not_count() -> None:
    cases = [{"a": 2.0, "b": 4.0, "odd": 0.001}, {"a": 2.0, "b": 1.0}]
    assert normalised(cases, ("a", "b", "c")) == {"a": 1.0, "b": 1.0}
    assert normalised([], ("a",)) == {}


def some_bars() -> Bars:
    cases = (
        Timed("GMM-1-b1", "GMM", {"torch": 2.0, "ansor": 1.0, "tensorsmith": 0.5}, {"autotvm": "ended after 5 of 9 trials"}),
        Timed("NRM-1-b1", "NRM", {"torch": 2.0, "tensorsmith": 1.0}),
    )
    return Bars("batch 1", ("torch", "ansor", "tensorsmith"), cases)


def some_curves() -> Curves:
    lines = (Line("tensorsmith", (1, 2, 3), (0.5, 1.0, 1.5), (4.0, 2.0, 1.0)), Line("beam", (), (), (), "failed: RuntimeError: no"))
    return Curves("ablation", "the best", {"conv": lines}, {"conv": 1.0})


@pytest.mark.parametrize("figure", [some_bars(), some_curves(), Grid("t", ("a", "b"), (("1", "2"),))])
def test_figures_come_back_from_json(figure: figures.Figure) -> None:
    assert figures.from_json(json.loads(json.dumps(figure.to_json()))) == figure


def test_heights_are_in_the_file_for_those_who_read_it_elsewhere() -> None:
    heights = some_bars().to_json()["heights"]
    assert heights == {"GMM": {"torch": 0.25, "ansor": 0.5, "tensorsmith": 1.0}, "NRM": {"torch": 0.5, "tensorsmith": 1.0}}


def test_a_line_is_the_median_of_the_seeds() -> None:
    runs = [
        Curve([None, 4.0, 2.0], [1.0, 2.0, 3.0]),
        Curve([9.0, 5.0, 5.0], [2.0, 3.0, 4.0]),
        Curve([9.0, 6.0, 1.0, 0.5], [3.0, 4.0, 5.0, 6.0], note="nothing is left to try after 4 trials"),
    ]
    line = of_curves("x", runs)
    assert line.trials == (2, 3) and line.best == (5.0, 2.0) and line.seconds == (3.0, 4.0)
    assert line.note == "nothing is left to try after 4 trials" and line.at(2) == 5.0 and line.at(1) is None
    told = of_outcomes("y", [Outcome(((8, 1.0, 3.0), (24, 2.0, 1.0))), Outcome(((16, 1.0, 5.0),))])
    assert told.trials == (16, 24) and told.best == (4.0, 3.0)
    assert of_curves("z", [Curve([], [], note="failed: E")]) == Line("z", (), (), (), "failed: E")


def test_what_it_takes_to_match() -> None:
    autotvm = Line("autotvm", (10, 20, 30), (5.0, 10.0, 15.0), (4.0, 3.0, 3.0))
    found = match("net", "ansor", autotvm, Line("ansor", (2, 4), (1.0, 2.0), (3.5, 3.0)))
    assert found is not None and found.reference == (20, 10.0) and found.own == (4, 2.0)
    assert found.cells == ("net", "ansor", "10", "2", "5.0x", "20", "4", "5.0x")
    never = match("net", "ansor", autotvm, Line("ansor", (2,), (1.0,), (3.5,)))
    assert never is not None and never.own is None and "not reached" in never.cells
    assert match("net", "ansor", Line("autotvm", (), (), ()), autotvm) is None


@pytest.mark.peers
def test_pictures_have_all_names_and_are_the_same_for_the_same_data(tmp_path: Path) -> None:
    made = drawing.draw_bars([[some_bars()], [some_bars()]], tmp_path / "one")
    again = drawing.draw_bars([[some_bars()], [some_bars()]], tmp_path / "two")
    assert [path.suffix for path in made] == [".svg", ".png"] and all(path.stat().st_size > 1000 for path in made)
    svg = made[0].read_text()
    assert all(word in svg for word in ("torch", "ansor", "tensorsmith", "GMM", "NRM", "batch 1"))
    assert svg == again[0].read_text()
    curves = drawing.draw_curves(some_curves(), tmp_path / "curves")[0].read_text()
    assert all(word in curves for word in ("tensorsmith", "measured programs", "seconds", "conv"))


def test_without_the_library_there_is_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(drawing.NoLibrary, match="the data is written"):
        drawing.draw_curves(some_curves(), tmp_path / "curves")


def test_every_system_has_one_colour() -> None:
    found = drawing.colours(["tensorsmith", "torch", "mine", "yours"])
    assert len(set(found.values())) == 4 and found["tensorsmith"] == drawing.COLOURS["tensorsmith"]


def test_markdown() -> None:
    assert Grid("t", ("a", "b"), (("1", "2"),)).markdown() == "| a | b |\n| --- | --- |\n| 1 | 2 |"
