"""Commands on models of open dimensions: `--shape batch=?` and `--shape batch=1,8,32`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.models import write_dense
from typer.testing import CliRunner, Result

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.computation import parse_shapes
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.measure.referee import Comparison, Timing
from tensorsmith.runtime.variants.executable import OpenExecutable


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def ran(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def answered(*arguments: object) -> Any:
    """The JSON on the standard output."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture
def dense(tmp_path: Path) -> str:
    return write_dense(tmp_path / "dense.onnx", ("batch", 8))


def test_what_shapes_may_say() -> None:
    texts = ["batch=?", "n=1,8,32", "x=?x3x224x224", "z=1x3", "k=4", "v=4,", "w=?,3"]
    assert parse_shapes(texts) == {
        "batch": None,
        "n": (1, 8, 32),
        "x": (None, 3, 224, 224),
        "z": (1, 3),
        "k": 4,
        "v": (4,),
        "w": (None, 3),
    }
    for wrong in ("batch", "batch=", "=3", "batch=??", "batch=-1", "batch=1;2"):
        with pytest.raises(UserError, match="write input=1x3x224x224, dimension=1, dimension=\\? or dimension=1,8,32"):
            parse_shapes([wrong])


def test_compile_writes_all_sizes_and_run_takes_any_of_them(dense: str, tmp_path: Path) -> None:
    file = tmp_path / "dense.tsm"
    out = ran("compile", dense, "--shape", "batch=1,8", "-o", file)
    assert "dense, 2 variants" in out and "of them shared" in out and out.count("kernels in") == 2
    loaded = ts.load_executable(file)
    assert isinstance(loaded, OpenExecutable) and [v.sizes["batch"] for v in loaded.variants] == [1, 8]
    np.save(tmp_path / "x.npy", np.ones((8, 8), np.float32))
    ran("run", file, "--input", f"x={tmp_path / 'x.npy'}", "--output", f"y={tmp_path / 'y.npy'}")
    assert np.load(tmp_path / "y.npy").shape == (8, 16)
    assert "1x16" in ran("run", file, "--shape", "batch=1")


def test_run_and_bench_take_the_size_of_the_input(dense: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((5, 8), np.float32))
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--shape", "batch=?")
    assert "5x16" in ran("run", dense, *given)
    assert "dense[batch=5]" in ran("bench", dense, *given, "--vs", "", "--seconds", "0.01")


def test_bench_has_a_table_for_each_size(dense: str) -> None:
    out = ran("bench", dense, "--shape", "batch=1,8", "--vs", "", "--seconds", "0.01")
    assert "dense[batch=1]" in out and "dense[batch=8]" in out


def test_tune_tunes_all_named_sizes(dense: str, tmp_path: Path) -> None:
    file, db = tmp_path / "dense.tsm", tmp_path / "tune.db"
    out = ran("tune", dense, "--shape", "batch=2,4", "--trials", "8", "--db", db, "-o", file)
    assert "dense[batch=2]: " in out and "dense[batch=4]: " in out and "2 variants" in out
    assert isinstance(ts.load_executable(file), OpenExecutable)


# -- as data -----------------------------------------------------------------------------------------------------------------


def test_compile_answers_with_all_variants(dense: str, tmp_path: Path) -> None:
    file = tmp_path / "dense.tsm"
    found = answered("compile", dense, "--shape", "batch=64,128", "-o", file)
    assert (found["model"], found["file_bytes"]) == ("dense", file.stat().st_size)
    assert [v["sizes"] for v in found["variants"]] == [{"batch": 64}, {"batch": 128}]
    made = ts.load_executable(file)
    assert isinstance(made, OpenExecutable)
    for v, variant in zip(found["variants"], made.variants, strict=True):
        assert v["kernels"]["kernels"] == len(variant.executable.network.kernels) and v["seconds"] > 0
        assert v["memory"] == vars(variant.memory)
        assert v["shared_bytes"] == v["memory"]["constants"] > 0
    assert found["kernels"]["steps"] == sum(v["kernels"]["steps"] for v in found["variants"])
    assert found["kernels"]["schedules"]["default"] == sum(v["kernels"]["kernels"] for v in found["variants"])
    assert found["memory"]["constants"] == found["variants"][0]["memory"]["constants"]  # there once
    assert answered("compile", dense, "--shape", "batch=4", "-o", file)["variants"] == []


def test_run_answers_with_the_sizes_it_ran_at(dense: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((5, 8), np.float32))
    found = answered("run", dense, "--input", f"x={tmp_path / 'x.npy'}", "--shape", "batch=?")
    assert (found["model"], found["sizes"], found["outputs"][0]["shape"]) == ("dense[batch=5]", {"batch": 5}, [5, 16])
    file = tmp_path / "dense.tsm"
    ran("compile", dense, "--shape", "batch=1,8", "-o", file)
    assert answered("run", file, "--shape", "batch=8")["sizes"] == {"batch": 8}
    assert answered("run", dense, "--shape", "batch=2")["sizes"] == {}


def test_bench_answers_with_a_race_for_each_size(dense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    races = iter(Comparison({"tensorsmith": Timing(n * 1e-3, (n * 2e-3,), 1)}) for n in (1, 2, 3))
    monkeypatch.setattr(sys.modules["tensorsmith.cli.bench"], "compare", lambda runs, ours, seconds: next(races))
    found = answered("bench", dense, "--shape", "batch=1,8", "--vs", "", "--profile")
    assert (found["model"], found["sizes"], found["race"], found["profile"]) == ("dense", {}, None, None)
    assert [(v["model"], v["sizes"]["batch"]) for v in found["variants"]] == [("dense[batch=1]", 1), ("dense[batch=8]", 8)]
    assert [v["race"]["systems"][0]["best"] for v in found["variants"]] == [1e-3, 2e-3]
    assert all(sum(k["share"] for k in v["profile"]) == pytest.approx(1.0) for v in found["variants"])
    assert found["kernels"]["kernels"] == sum(v["kernels"]["kernels"] for v in found["variants"])
    found = answered("bench", dense, "--shape", "batch=3,", "--vs", "")
    assert (found["sizes"], found["race"]["systems"][0]["best"], found["variants"]) == ({"batch": 3}, 3e-3, [])


def test_bench_exits_with_1_if_one_size_is_wrong(dense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tensorsmith.cli.bench"]
    same = iter((False, True))
    monkeypatch.setattr(module, "largest_difference", lambda a, b: (0.0, next(same)))
    result = invoke("bench", dense, "--shape", "batch=1,8", "--vs", "", "--seconds", "0.01", "--json")
    assert result.exit_code == 1 and len(json.loads(result.stdout)["variants"]) == 2


def test_a_report_of_bench_is_of_the_size_of_the_input(dense: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorsmith.report import render

    module = sys.modules["tensorsmith.cli.bench"]
    monkeypatch.setattr(module, "library", lambda: "/* the library */")
    monkeypatch.setattr(render, "library", lambda: "/* the library */")
    db, page = tmp_path / "tune.db", tmp_path / "page.html"
    ran("tune", dense, "--shape", "batch=5", "--trials", "2", "--db", db)
    np.save(tmp_path / "x.npy", np.ones((5, 8), np.float32))
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--shape", "batch=?", "--db", db)
    found = answered("bench", dense, *given, "--vs", "", "--seconds", "0.01", "--report", page)
    assert found["report"] == str(page) and found["sizes"] == {"batch": 5}
    assert "tune.db" in page.read_text()  # the records of that size are in it


def test_tune_answers_with_all_named_sizes(dense: str, tmp_path: Path) -> None:
    file, db = tmp_path / "dense.tsm", tmp_path / "tune.db"
    (found,) = answered("tune", dense, "--shape", "batch=2,4", "--trials", "4", "--db", db, "-o", file)
    assert (found["name"], found["model"], found["time"], found["records"]) == (dense, "dense", None, [])
    assert [(v["model"], v["sizes"]) for v in found["variants"]] == [
        ("dense[batch=2]", {"batch": 2}),
        ("dense[batch=4]", {"batch": 4}),
    ]
    for v in found["variants"]:
        assert v["time"]["best"] > 0 and {r["model"] for r in v["records"]} <= {v["model"]}
    assert any(v["records"] for v in found["variants"])
    assert [v["sizes"] for v in found["saved"]["variants"]] == [{"batch": 2}, {"batch": 4}]
    assert found["kernels"] == found["saved"]["kernels"]


def test_several_models_have_fixed_sizes(dense: str, tmp_path: Path) -> None:
    other = write_dense(tmp_path / "other.onnx")
    for sizes in ("batch=?", "batch=1,8"):
        result = invoke("tune", dense, other, "--shape", sizes)
        assert isinstance(result.exception, UserError)
        expected = f"{dense} has open dimensions (batch): give one size, --shape batch=8, or tune it by itself"
        assert told(result.exception) == expected


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("tune", "--shape", "batch=?"), "tune needs sizes to tune for: name some, as in --shape batch=1,8,32"),
        (("run", "--shape", "rows=?"), "--shape rows=?: 'rows' is not a dimension of the model; it has input x, dimension batch"),
        (("run", "--shape", "rows=1,8"), "--shape rows=1,8: 'rows' is not an input of the model; it has input x, dimension batch"),
        (("run", "--shape", "x=?"), "x is an input: give its shape, which may be open in part, --shape x=?,8"),
        (("run", "--shape", "batch=?", "--shape", "rows=3"), "--shape rows=3: 'rows' is not a dimension of the model"),
        (("run", "--shape", "batch=?", "--shape", "y=3x4"), "--shape y=3,4: 'y' is not an input of the model"),
        (("export", "--shape", "batch=1,8", "-o", "out"), "batch must have one size here: --shape batch=8"),
    ],
)
def test_what_is_said_at_a_command_line(dense: str, command: tuple[str, ...], message: str) -> None:
    result = invoke(command[0], dense, *command[1:])
    assert isinstance(result.exception, UserError) and told(result.exception).startswith(message)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("compile", "--shape", "batch=?"), "a file needs sizes of batch: --shape batch=1,8,32"),
        (("run", "--shape", "batch=?"), "batch has no size: give --input FILE, or name sizes: --shape batch=1,8"),
        (("run", "--shape", "batch=1,8"), "has 2 sizes"),
        (("tasks", "--shape", "batch=?"), "batch must have one size here: --shape batch=8"),
        (("sketches", "--task", "0", "--shape", "batch=1,8"), "batch must have one size here"),
        (("tune", "--shape", "batch=?"), "tune needs sizes to tune for"),
        (("bench", "--shape", "batch=1,8", "--vs", "", "--report", "x.html"), "a report is of one size"),
        (("run", "--shape", "rows=?"), "'rows' is not a dimension of the model"),
    ],
)
def test_mistakes(dense: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(command[0], dense, *command[1:])
    assert isinstance(result.exception, UserError) and message in str(result.exception)


def test_what_a_file_cannot_obey(dense: str, tmp_path: Path) -> None:
    file = tmp_path / "dense.tsm"
    ran("compile", dense, "--shape", "batch=1,8", "-o", file)
    for options, message in (
        (("--shape", "batch=?"), "--shape chooses one of its sizes, batch=8"),
        (("--shape", "batch=3"), "has no variant for batch=3"),
        (("--db", "x.db"), "is compiled: --db is for models"),
        ((), "has 2 sizes (dense[batch=1], dense[batch=8]): give --input FILE, or --shape with one"),
    ):
        result = invoke("run", file, *options)
        assert isinstance(result.exception, UserError) and message in str(result.exception)


def test_inputs_tell_the_sizes(dense: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (5, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    shapes = [answered("run", dense, "--input", f"x={tmp_path / 'x.npy'}")["outputs"][0]["shape"]]
    shapes.append(answered("run", dense, "--input", tmp_path / "x.npy")["outputs"][0]["shape"])
    wanted = ts.load(dense, shapes={"batch": 5}).outputs[0].shape
    assert shapes == [list(wanted)] * 2
    wrong = invoke("run", dense, "--shape", "batch=4", "--input", f"x={tmp_path / 'x.npy'}")
    assert wrong.exit_code != 0
