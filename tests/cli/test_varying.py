"""Commands on models of open dimensions: `--shape batch=?` and `--shape batch=1,8,32`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense
from typer.testing import CliRunner, Result

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.computation import parse_shapes
from tensorsmith.errors import UserError
from tensorsmith.runtime.variants.executable import OpenExecutable


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def ran(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


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
    assert "2 variants" in out and "batch=8: " in out and "kernels in" in out
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
        (("run", "--shape", "batch=0,1"), "batch is 0; an open dimension has sizes from 1 on"),
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
