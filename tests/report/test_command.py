"""`tensorsmith report`, and the report of `tensorsmith bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.report.samples import SMALL, TIMING, default, tuned
from tests.report.test_render import embedded
from typer.testing import CliRunner, Result

from tensorsmith.cli import app, smallnet
from tensorsmith.errors import UserError
from tensorsmith.records import Store
from tensorsmith.report import render
from tensorsmith.targets.target import native

COMMAND, BENCH = (sys.modules[f"tensorsmith.cli.{name}"] for name in ("report", "bench"))


@pytest.fixture(autouse=True)
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (render, BENCH):
        monkeypatch.setattr(module, "library", lambda: "/* the library */")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_a_page_is_written(tmp_path: Path) -> None:
    result = run(tuned(tmp_path / "tune.db"), "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{tmp_path / 'page.html'}: 2 tasks, 10 trials, 0.")
    data = embedded((tmp_path / "page.html").read_text())
    assert data["refresh"] is None and len(data["settings"][0]["tasks"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.db"], "there is no record file"),
        (["text.db"], "is not a record file"),
        (["empty.db"], "holds no records yet"),
        (["tune.db", "-o", "nowhere/page.html"], "there is no folder nowhere"),
        (["tune.db", "--model", "none.onnx"], "there is no file none.onnx"),
        (["tune.db", "--model", "model.txt"], "is no model"),
        (["tune.db", "--measure-peak"], "--measure-peak: the records are of x86_64/znver4"),
    ],
)
def test_mistakes_in_one_line(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(tmp_path / "tune.db")
    (tmp_path / "text.db").write_text("some text, long enough to be no header of a database at all" * 10)
    (tmp_path / "empty.db").touch()
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert isinstance(result.exception, UserError) and message in str(result.exception)
    assert "\n" not in str(result.exception) and not (tmp_path / "report.html").exists()


def test_a_missing_library_is_told_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setattr(COMMAND.collect, "of_records", None)
    result = run(tuned(tmp_path / "tune.db"), "-o", tmp_path / "page.html")
    assert "pip install '.[report]' in a checkout" in str(result.exception)


def test_a_peak_is_measured_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "tune.db") as store:
        store.add(SMALL, native(), TIMING, [default(SMALL, 1e-3)])
    monkeypatch.setattr(COMMAND, "measure_peak", lambda: {"flops": 7e10, "flops_one_core": 1e9, "bytes": 2e10})
    assert run(tmp_path / "tune.db", "-o", tmp_path / "page.html", "--measure-peak").exit_code == 0
    roof = embedded((tmp_path / "page.html").read_text())["settings"][0]["roof"]
    assert roof == {"flops": 7e10, "bytes": 2e10, "source": "measured"}


def test_watching_ends_with_a_page_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, seen = tmp_path / "page.html", []

    def follow(file: Path, make: object, every: float) -> None:
        assert file == tmp_path / "tune.db" and every == 3.0
        make()  # type: ignore[operator]
        assert not page.exists()  # no record yet
        with Store.open(file) as store:
            store.add(SMALL, native(), TIMING, [default(SMALL, 1e-3)])
        make()  # type: ignore[operator]
        seen.append(embedded(page.read_text())["refresh"])
        raise KeyboardInterrupt

    with Store.open(tmp_path / "tune.db"):
        pass
    monkeypatch.setattr(COMMAND, "follow", follow)
    result = run(tmp_path / "tune.db", "-o", page, "--watch", "--every", 3)
    assert result.exit_code == 0 and seen == [3.0]
    assert embedded(page.read_text())["refresh"] is None
    assert result.output.splitlines()[-1].startswith(f"{page}: 1 task, 1 trial")


@pytest.mark.filterwarnings("ignore:.*there are no records yet:UserWarning")
def test_bench_writes_what_it_measured(tmp_path: Path) -> None:
    model, database, page = tmp_path / "small.onnx", tmp_path / "tune.db", tmp_path / "page.html"
    smallnet.write(model)
    with Store.open(database):
        pass
    arguments = ["bench", str(model), "--vs", "", "--seconds", "0", "--report", str(page)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    data = embedded(page.read_text())
    assert data["settings"] == [] and [r["name"] for r in data["race"]] == ["tensorsmith"]
    assert sum(k["share"] for k in data["kernels"]) == pytest.approx(1.0)
    assert data["roof"]["flops"] > 0 and all(k["bytes"] > 0 for k in data["kernels"])
    result = CliRunner().invoke(app, [*arguments, "--db", str(database)])
    assert f"the report is without records: {database} holds no records yet" in result.output
