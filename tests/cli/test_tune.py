"""`tensorsmith tune`: its options reach the tuner, and mistakes are named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense
from tests.records.rights import public_folder, unprivileged
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError

RUN = CliRunner()

DEFINITION = """
import tensorsmith as ts
A = ts.placeholder((16, 24), name="A")
tensors = [A, ts.compute((16, 24), lambda i, j: A[i, j] * 2.0, name="B")]
"""


@pytest.fixture
def definition(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(DEFINITION)
    return str(tmp_path / "mine.py")


def test_a_file_is_tuned(definition: str, tmp_path: Path) -> None:
    result = RUN.invoke(app, ["tune", definition, "--trials", "3", "--db", str(tmp_path / "tune.db"), "--verbose"])
    assert result.exit_code == 0, result.output
    assert "3/3 trials, best " in result.output and "s in all" in result.output
    assert "B[i" in result.output and (tmp_path / "tune.db").exists()


def test_a_model_is_tuned_and_written(tmp_path: Path) -> None:
    model, db, file = write_dense(tmp_path / "dense.onnx"), tmp_path / "tune.db", tmp_path / "dense.tsm"
    result = RUN.invoke(app, ["tune", model, "--trials", "4", "--db", str(db), "-o", str(file)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert "with a record" in result.output
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    for name, array in ts.load_executable(file).run({"x": x}).items():
        np.testing.assert_allclose(array, ts.load(model).evaluate({"x": x})[name], rtol=1e-4, atol=1e-5)
    assert "with a record" in RUN.invoke(app, ["compile", model, "--db", str(db), "-o", str(file)]).output


class Asked(Exception):
    """What the tuner was asked for."""


def test_options(definition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(workload: object, **options: object) -> None:
        raise Asked(options)

    monkeypatch.setattr(sys.modules["tensorsmith.cli.tune"], "search", tune)
    given = ["--time", "1h30m", "--effort", "normal", "--patience", "7", "--db", "x.db", "--seed", "3", "--cold"]
    given += ["--policy", "random", "--rules", "ansor", "--model", "prior", "--formulations", "direct", "--weights", "bf16"]
    given += ["--threads", "2"]
    result = RUN.invoke(app, ["tune", definition, *given])
    assert result.exception.args[0] == {
        "trials": None,
        "seconds": 5400.0,
        "patience": 7,
        "effort": "normal",
        "database": "x.db",
        "seed": 3,
        "cache": "cold",
        "policy": "random",
        "rules": "ansor",
        "model": "prior",
        "formulations": "direct",
        "weights": "bf16",
        "target": None,
        "runner": "local",
        "fallback": True,
        "early_stop": True,
        "threads": 2,
        "verbose": False,
    }


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--time", "soon"], "'soon' is no time; write it as 90s, 10m, 1h or 1h30m"),
        (["--effort", "hard"], "no effort 'hard'; it is one of quick, normal, thorough"),
        (["--trials", "-3"], "trials is -3"),
        (["--patience", "-3"], "patience is -3"),
        (["--policy", "annealing"], "there is no policy 'annealing'; known are tensorsmith, ansor, ansor-nofinetune"),
        (["--rules", "all"], "there is no rule set 'all'; known are default, ansor"),
        (
            ["--model", "oracle"],
            "there is no cost model 'oracle'; known are trees, ensemble, ansor, mlp, prior, random, halide, treegru",
        ),
        (["--policy", "nowhere:Policy"], "nowhere cannot be imported"),
        (["--formulations", "some"], "there is no formulation 'some'; known are all, direct"),
    ],
)
def test_mistakes(definition: str, tmp_path: Path, option: list[str], message: str) -> None:
    result = RUN.invoke(app, ["tune", definition, "--db", str(tmp_path / "tune.db"), *option])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
    assert not (tmp_path / "tune.db").exists()


def test_what_cannot_be_written_is_said_before_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(workload: object, **options: object) -> None:
        raise Asked(options)

    model = write_dense(tmp_path / "dense.onnx")
    monkeypatch.setattr(sys.modules["tensorsmith.cli.tune"], "search", tune)
    monkeypatch.setattr(sys.modules["tensorsmith.cli.compile"], "compile_model", tune)
    os.mkfifo(tmp_path / "pipe.tsm")
    for command in ("tune", "compile"):
        for file, message in (
            (tmp_path / "nowhere" / "x.tsm", "cannot be written: there is no folder"),
            (tmp_path / "pipe.tsm", "cannot be written: it is no ordinary file"),
        ):
            result = RUN.invoke(app, [command, model, "-o", str(file)])
            assert isinstance(result.exception, UserError) and message in str(result.exception)
    result = RUN.invoke(app, ["compile", model, "-o", str(tmp_path)])
    assert "cannot be written: it is a folder" in str(result.exception)
    with public_folder() as folder:
        folder.chmod(0o555)
        with unprivileged(), pytest.raises(UserError, match="no right to write in the folder"):
            check_writable(str(folder / "x.tsm"))


def test_a_record_file_that_cannot_be_written_is_said_before_the_search(
    definition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go(*given: object) -> None:
        raise Asked

    monkeypatch.setattr("tensorsmith.tuning.run.Run.go", go)
    (tmp_path / "text.db").write_text("no records" * 100)
    for file in (tmp_path / "nowhere" / "tune.db", tmp_path, tmp_path / "text.db"):
        result = RUN.invoke(app, ["tune", definition, "--db", str(file)])
        assert isinstance(result.exception, UserError) and str(tmp_path) in str(result.exception)


def test_help_names_every_option() -> None:
    out = RUN.invoke(app, ["tune", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for option in (
        "--trials",
        "--time",
        "--effort",
        "--patience",
        "--db",
        "--seed",
        "--cold",
        "--policy",
        "--rules",
        "--model",
        "--formulations",
        "--shape",
        "--output",
        "--verbose",
    ):
        assert option in out


def test_a_machine_that_is_not_here() -> None:
    """What can be done for it instead, before anything is derived."""
    result = RUN.invoke(app, ["tune", "GMM-small", "--trials", "1", "--target", "a64fx"])
    assert isinstance(result.exception, UserError) and "deriving sketches" not in result.output
    for words in (
        "programs for a64fx cannot be measured here: what was compiled for a64fx (aarch64-unknown-linux-gnu), this is ",
        'give --runner, as in "ssh board"; without a search, `tensorsmith compile MODEL --target a64fx` makes an executable, '
        "`tensorsmith export MODEL --target a64fx -o FOLDER` a C library",
    ):
        assert words in told(result.exception)
    assert "ts.compile(model, target='a64fx').export(folder)" in str(result.exception)


def test_a_machine_that_nobody_knows() -> None:
    problem = RUN.invoke(app, ["tune", "GMM-small", "--trials", "1", "--target", "cortex-m4"]).exception
    assert isinstance(problem, UserError)
    said = told(problem)
    assert said.startswith("there is no target 'cortex-m4', did you mean 'cortex-a76', 'cortex-a72' or 'cortex-a5")
    assert (
        "`tensorsmith targets` lists all machines that can be generated for, of x86_64, aarch64, arm64, riscv64, wasm32, gpu"
        in said
    )
