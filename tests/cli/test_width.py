"""Tables fit a terminal of 80 columns and keep what matters; help shows no value for an option that takes none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.cli.models import write_dense
from tests.measure.fleet.simulation import Simulation
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.table import fitting, folded, table
from tensorsmith.measure.fleet import published
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native
from tensorsmith.testing.simulated import Conditions

WARM = Timing("warm", native().cores)
RUN = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, an executable of it, one of open dimensions, and records of which one failed with a long cause."""
    made = tmp_path_factory.mktemp("width")
    dense = write_dense(made / "dense.onnx", ("batch", 8))
    ts.compile(ts.load(dense, shapes={"batch": 4})).save(made / "dense.tsm")
    ts.compile(ts.load(dense, shapes={"batch": (1, 16)})).save(made / "open.tsm")
    with Store.open(made / "tune.db") as store:
        first, second = (task.workload for task in ts.load(dense, shapes={"batch": 4}).tasks())
        store.add(first, native(), WARM, [Trial(plain_candidate(first), Status.OK, 1.25e-2)])
        store.add(second, native(), WARM, [Trial(plain_candidate(second), Status.REFUSED, cause="no register is left " * 8)])
    return made


def shown(arguments: list[str], columns: int = 80) -> str:
    result = RUN.invoke(app, arguments, env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def headings(text: str) -> list[str]:
    """The words above each column of the first table, lines of a heading joined."""
    lines = [line for line in text.partition("┡")[0].splitlines() if line.startswith("┃")]
    first = [line.strip("┃").split("┃") for line in lines]
    return [" ".join(" ".join(parts).split()) for parts in zip(*first)]


SHAPE = ["--shape", "batch=4"]
COMMANDS = {
    "workloads": (["workloads"], ["name", "operator", "title", "MFLOP"]),
    "targets": (["targets"], ["name", "kind", "machine", "cores", "key"]),
    "ops": (["ops", "--system", "onnx"], ["operator", "from opset", "types"]),
    "tasks": (["tasks", "dense.onnx", *SHAPE], ["task", "name", "calls", "MFLOP"]),
    "tasks with times": (
        ["tasks", "dense.onnx", "--db", "tune.db", "--profile", *SHAPE],
        ["task", "name", "calls", "best record", "time of all calls", "share of time"],
    ),
    "run": (["run", "dense.tsm"], ["output", "type", "shape", "least", "mean", "largest"]),
    "compile": (["compile", "dense.onnx", "--shape", "batch=1,16", "-o", "new.tsm"], ["batch", "kernels", "weights", "arena"]),
    "bench": (["bench", "dense.tsm", "--vs", "", "--seconds", "0.01"], ["system", "best", "median"]),
    "bench with a profile": (["bench", "dense.tsm", "--vs", "", "--seconds", "0.01", "--profile"], ["system", "best", "median"]),
    "records": (["records", "tune.db"], ["key", "workload", "trials", "best"]),
    "records best": (["records", "tune.db", "best", "dense.onnx", *SHAPE], ["calls", "best", "share", "speed-up", "task"]),
    "records top": (["records", "tune.db", "top", "dense.onnx", *SHAPE], ["place", "time", "to the best", "candidate"]),
    "records history": (
        ["records", "tune.db", "history", "dense.onnx", *SHAPE],
        ["trial", "status", "time", "best so far", "cause"],
    ),
    "records why": (["records", "tune.db", "why", "dense.onnx", *SHAPE], ["part of the key", "wanted", "records"]),
    "records failures": (["records", "tune.db", "failures"], []),
    "doctor": (["doctor"], []),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_eighty_columns(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    arguments, essential = COMMANDS[name]
    text = shown(arguments)
    assert [line for line in text.splitlines() if cell_len(line) > 80] == []
    if essential:
        assert [column for column in essential if column not in headings(text)] == []


def test_the_nodes_of_a_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "folder", lambda: tmp_path / "fleet")
    simulation = Simulation(Conditions(3))
    simulation.measure(20)
    published.Published("simulated")(simulation.runner)
    text = shown(["fleet", "status"])
    simulation.runner.close()
    assert [line for line in text.splitlines() if cell_len(line) > 80] == []
    assert {"node", "state", "it", "why"} <= set(headings(text))


def test_a_wider_terminal_shows_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    narrow, wide = shown(["records", "tune.db"]), shown(["records", "tune.db"], 200)
    assert "left out for want of room: " in narrow and "last trial" in narrow.split("left out")[1]
    assert "left out" not in wide and "last trial" in headings(wide)


def test_what_is_no_terminal_gets_everything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)
    text = RUN.invoke(app, ["records", "tune.db"]).stdout
    assert "left out" not in text and "last trial" in headings(text)


def test_names_are_folded_not_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "52")
    name = "".join(chr(ord("a") + n % 26) for n in range(70))
    table(("name", "time", "key"), [(name, "12.3 us", "0123456789abcdef")], ("name", "key"))
    out = capsys.readouterr().out
    rows = [line.strip("│").split("│") for line in out.splitlines() if line.startswith("│")]
    assert "".join(cells[0].strip() for cells in rows) == name
    assert [cells[2].strip() for cells in rows if cells[2].strip()] == ["0123456789abcdef"]


def test_which_columns_go_and_which_give_way() -> None:
    columns, needs = ("a", "b", "c"), (10, 10, 10)
    assert fitting(columns, needs, ("b", "c"), 40) == [0, 1, 2]  # 3 x 10 and the borders, exactly
    assert fitting(columns, needs, ("b", "c"), 39) == [0, 2]
    assert fitting(columns, needs, ("b", "missing", "c"), 20) == [0]
    assert folded([30, 8, 12], [10, 8, 8], 50) == [20, 8, 12]
    assert folded([30, 30], [10, 29], 20) == [10, 29]  # what is needed is never taken


PATHS = [
    [], *([name] for name in ("doctor", "demo", "workloads", "targets", "ops", "tasks", "sketches", "tune", "compile", "export")),
    ["run"], ["bench"], ["report"], ["records"], ["records", "x.db", "best"], ["fleet"], ["fleet", "status"],
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_a_flag_has_no_value_in_help(path: list[str]) -> None:
    out = shown([*path, "--help"], 100)
    assert "<bool>" not in out and "BOOLEAN" not in out
    assert "--help" in out
    flags = [line for line in out.splitlines() if re.search(r"│ --(json|verbose|profile|cold)\b", line)]
    assert [line for line in flags if re.search(r"<|INTEGER", line)] == []
