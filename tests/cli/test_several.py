"""Several models in one `tensorsmith tune`: a shared budget, an executable and a report for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense, write_lookup
from typer.testing import CliRunner, Result

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.records import Store


def tune(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tune", *map(str, arguments)])


def mistake(*arguments: object) -> str:
    result = tune(*arguments)
    assert isinstance(result.exception, UserError), (result.output, result.exception)
    return told(result.exception)


class Asked(Exception):
    """What the tuner was asked for."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(computation: object, **options: object) -> None:
        raise Asked(computation, options)

    monkeypatch.setattr(sys.modules["tensorsmith.cli.tune"], "search", search)


def test_two_models_are_tuned_together_and_written_to_a_folder(tmp_path: Path) -> None:
    first, second = write_dense(tmp_path / "first.onnx"), write_dense(tmp_path / "second.onnx", (5, 8))
    (tmp_path / "out").mkdir()
    arguments = (first, second, "--trials", 4, "--db", tmp_path / "tune.db", "-o", tmp_path / "out")
    result = tune(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "4/4 trials" in result.output
    with Store.open(tmp_path / "tune.db", read_only=True) as store:
        assert sum(s.trials for s in store.workloads() if s.timing.cache == "warm") >= 4
    assert result.output.count("dense: the whole program, alone") == 2
    for name, rows in (("first", 4), ("second", 5)):
        file = tmp_path / "out" / f"{name}.tsm"
        assert f"{file}: dense, " in result.output
        assert ts.load_executable(file)(np.zeros((rows, 8), np.float32))[0].shape == (rows, 16)
    found = json.loads(tune(*arguments[:3], 0, *arguments[4:6], "--json").stdout)
    assert [f["name"] for f in found] == [first, second] and all(f["saved"] is None for f in found)


@pytest.mark.usefixtures("asked")
def test_all_of_them_and_the_options_reach_the_tuner(tmp_path: Path) -> None:
    result = tune(write_dense(tmp_path / "a.onnx"), write_lookup(tmp_path / "b.onnx"), "--time", "10m", "--db", "x.db")
    computation, options = result.exception.args
    assert [m.name for m in computation] == ["dense", "lookup"] and all(isinstance(m, Model) for m in computation)
    assert options["seconds"] == 600.0 and options["database"] == "x.db" and options["trials"] is None


@pytest.mark.usefixtures("asked")
def test_a_shape_goes_to_the_models_that_have_the_name(tmp_path: Path) -> None:
    first, second = write_dense(tmp_path / "a.onnx", ("rows", 8)), write_dense(tmp_path / "b.onnx", ("batch", 8))
    third = write_lookup(tmp_path / "c.onnx")
    computation, _ = tune(first, second, third, "--shape", "rows=3", "--shape", "batch=7").exception.args
    assert [m.inputs[0].shape for m in computation] == [(3, 8), (7, 8), (5,)]
    computation, _ = tune(first, second, "--shape", "x=2x8").exception.args
    assert [m.inputs[0].shape for m in computation] == [(2, 8), (2, 8)]
    assert mistake(first, second, "--shape", "rows=3", "--shape", "depth=7") == (
        "--shape depth=7: none of the models has an input or a dimension 'depth'"
    )
    assert "Bind them: --shape batch=N" in mistake(first, second, "--shape", "rows=3")
    assert "--shape rows: write input=" in mistake(first, second, "--shape", "rows")


@pytest.mark.usefixtures("asked")
def test_one_file_for_each_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = write_dense(Path("a.onnx")), write_dense(Path("b.onnx"))
    Path("other").mkdir()
    for files in (["x.tsm", "y.tsm"], ["other"], ["other/"]):
        given = [part for f in files for part in ("-o", f)]
        assert isinstance(tune(first, second, *given).exception, Asked)
    assert "-o: 1 given for 2 models; give one for each, in their order, or a folder" in mistake(first, second, "-o", "x.tsm")
    assert "two models would be written to x.tsm" in mistake(first, second, "-o", "x.tsm", "-o", "x.tsm")
    same = write_dense(Path("other/a.onnx"))
    assert "two models would be written to other/a.tsm" in mistake(first, same, "-o", "other")
    assert "there is no folder nowhere" in mistake(first, second, "-o", "nowhere/")
    assert "there is no folder nowhere" in mistake(first, second, "-o", "x.tsm", "-o", "nowhere/y.tsm")


def test_what_cannot_be_tuned_together(tmp_path: Path) -> None:
    model = write_dense(tmp_path / "a.onnx")
    assert mistake(model, model) == f"{model} is given twice"
    assert "C2D-small is a workload: several computations can be tuned together if all of them are models" in mistake(
        model, "C2D-small"
    )
    assert "only a model can be written" in mistake("C2D-small", "-o", "x.tsm")
