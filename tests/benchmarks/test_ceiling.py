"""How far from the bound: shares, the order of the table, and that what is done is kept."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import ceiling
import tensorsmith as ts
from ceiling import Row, Subject
from tensorsmith.ops import catalogue


def row(name: str, arithmetic: float, untuned: float | None, tuned: float | None, **more: object) -> Row:
    return Row(name, arithmetic, 1e-6, "L2", 1e-7, untuned, tuned, **more)  # type: ignore[arg-type]


def test_shares_are_of_the_bound_by_the_best_program() -> None:
    one = row("a", 8e-6, 20e-6, 10e-6, alone=9e-6)
    assert one.bound.limit == "FMA" and one.share == pytest.approx(8 / 9) and one.gain == 2.0
    assert row("b", 8e-6, None, None).share is None and row("b", 8e-6, 1e-5, None).gain is None


def test_the_farthest_comes_first_and_a_longer_search_shows() -> None:
    rows = [row("near", 9e-6, 10e-6, 9.1e-6), row("far", 2e-6, 10e-6, 8e-6, reached={"64": 1e-5, "256": 8e-6}, note="odd")]
    console = Console(width=200, file=io.StringIO())
    console.print(ceiling.table(rows))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.index("far") < said.index("near") and "0.800" in said and "1.000" in said and "odd" in said
    first, second = ceiling.verdict(rows)
    assert "within 3 % of it: 1" in first and "tuned to untuned: 1.172" in second
    assert ceiling.verdict([row("a", 1e-6, None, None)]) == ["nothing was measured"]


def test_rows_are_kept_and_the_file_has_what_the_table_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def pretended(subject: Subject, given: object) -> Row:
        made.append(subject.name)
        if len(made) == 2:
            raise KeyboardInterrupt
        return row(subject.name, 1e-6, 4e-6, 2e-6)

    monkeypatch.setattr(ceiling, "_row", pretended)
    words = ["--trials", "8", "--only", "GMM-1-b1,NRM", "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match="the same command"):
        ceiling.main(words)
    ceiling.main(words)
    names = ["GMM-1-b1", "NRM-1-b1", "NRM-2-b1", "NRM-3-b1", "NRM-4-b1"]
    assert made == [*names[:2], *names[1:]]
    form = json.loads((tmp_path / "ceiling.json").read_text())
    assert [r["name"] for r in form["rows"]] == names and form["rows"][0]["share"] == 0.5 and form["rows"][0]["limit"] == "FMA"


def test_a_search_that_fails_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **more: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(ts, "tune", broken)
    log = ceiling.search(Subject("a", catalogue.get("GMM-small").workload()), 4, tmp_path / "a")
    assert log.outcome.note == "failed: RuntimeError: out of luck"


def test_a_case_is_searched_and_goes_on_with_more_trials(tmp_path: Path) -> None:
    subject = Subject("GMM-small", catalogue.get("GMM-small").workload())
    first = ceiling.search(subject, 2, tmp_path / "a").outcome
    more = ceiling.search(subject, 4, tmp_path / "a").outcome
    assert first.trials == 2 and more.trials == 4 and more.points[: len(first.points)] == first.points
    assert more.best is not None and not more.note


def test_a_workload_is_measured_beside_its_bound() -> None:
    found = ceiling.measured(Subject("GMM-small", catalogue.get("GMM-small").workload()), None, None, 0.01)
    assert found.tuned is not None and found.tuned > 0 and found.bound.seconds > 0 and not found.note


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say how long to search"),
        (["--trials", "4", "--db", "x.db"], "say how long to search"),
        (["--db", "nowhere.db"], "there is no file nowhere.db"),
        (["--trials", "4", "--only", "XYZ"], "there is no case or operator 'XYZ'"),
        (["--trials", "4", "--networks", "vgg"], "there is no network 'vgg'"),
        (["--trials", "-1"], "0 or more"),
    ],
)
def test_refusals(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ceiling.arguments([*words, "--out", str(tmp_path)])
    assert message in capsys.readouterr().err
