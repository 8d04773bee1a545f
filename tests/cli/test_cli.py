"""The command line: what it prints, and that a mistake is one clear line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.errors import UserError, needed_for
from tensorsmith.lang.flops import flops
from tensorsmith.ops import catalogue

RUN = CliRunner()


def test_doctor_shows_the_machine_and_passes_its_self_test() -> None:
    result = RUN.invoke(app, ["doctor"])
    assert result.exit_code == 0
    for word in ("cpu", "features", "vectors", "caches", "threads", "peak", "parallel", "self-test  C2D-small: ok"):
        assert word in result.output
    assert "WRONG" not in result.output


def test_sketches_of_the_catalogue() -> None:
    result = RUN.invoke(app, ["sketches", "GMM-1-b1", "--rules", "ansor"])
    assert result.exit_code == 0
    assert "--- sketch 2 of 3" in result.output


def test_sketches_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import tensorsmith as ts\n"
        "A = ts.placeholder((8, 8), name='A')\n"
        "tensors = [A, ts.compute((8, 8), lambda i, j: A[i, j] * 2.0, name='B')]\n"
    )
    result = RUN.invoke(app, ["sketches", str(file)])
    assert result.exit_code == 0
    assert "B[i, j] = A[i, j] * 2.0" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sketches", "C2D-99"], "no case is called 'C2D-99'"),
        (["sketches", "missing.py"], "there is no file missing.py"),
        (["sketches", "GMM-1-b1", "--rules", "halide"], "there is no rule set 'halide'"),
        (["sketches", "GMM-1-b1", "--only", "77"], "there is no 77"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    result = RUN.invoke(app, arguments)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_a_mistake_is_one_line_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tensorsmith.cli import main; main()", "sketches", "C2D-99"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("tensorsmith: no case is called") and done.stderr.count("\n") == 1


def test_a_file_without_a_definition(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    result = RUN.invoke(app, ["sketches", str(tmp_path / "empty.py")])
    assert "must define `tensors" in str(result.exception)


def test_help_says_how_commands_end() -> None:
    out = " ".join(RUN.invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output.split())
    for meaning in (
        "Exit codes: 0, done",
        "1, done, but a result is wrong",
        "2, something that was given is wrong",
        "130, ended by Ctrl-C",
    ):
        assert meaning in out


def test_version() -> None:
    result = RUN.invoke(app, ["--version"])
    assert result.exit_code == 0 and result.output.strip() == f"tensorsmith {ts.__version__}"


def test_workloads_for_people_and_for_programs() -> None:
    table = RUN.invoke(app, ["workloads", "GMM-3"])
    assert table.exit_code == 0 and "GMM-3-b1" in table.output and "GMM-3-b16" in table.output and "C2D" not in table.output
    found = json.loads(RUN.invoke(app, ["workloads", "--json"]).output)
    assert [case["name"] for case in found] == list(catalogue.everything())
    (one,) = (case for case in found if case["name"] == "GMM-3-b1")
    assert one["operator"] == "GMM" and one["flops"] == flops(catalogue.get("GMM-3-b1").workload())
    result = RUN.invoke(app, ["workloads", "nothing"])
    assert isinstance(result.exception, UserError) and "no workload's name begins with nothing" in str(result.exception)


def test_targets_for_people_and_for_programs() -> None:
    assert "neoverse-n1" in RUN.invoke(app, ["targets"]).output
    found = {t["name"]: t for t in json.loads(RUN.invoke(app, ["targets", "--json"]).output)}
    assert set(found) == {"native", *ts.targets()} and found["native"]["key"] == ts.Target.native().key


def test_doctor_says_that_the_machine_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tensorsmith.cli.doctor"]  # the package has the command by that name
    monkeypatch.setattr(module, "measure_peak", lambda: {"flops": 2e11, "flops_one_core": 1e11, "bytes": 1e10})
    monkeypatch.setattr(module, "_problem", lambda name: None)
    for found, said in (([], False), (["other programs: 1.3 of the 2 cores"], True)):
        monkeypatch.setattr(module.neighbours, "complaints", lambda *given, found=found: found)
        result = RUN.invoke(app, ["doctor"])
        assert ("busy       other programs: 1.3 of the 2 cores: peak and times are less sure" in result.output) is said


def test_doctor_says_that_a_library_of_the_system_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tensorsmith.cli.doctor"]
    assert module._missing() == ()

    def fails(problem: Exception) -> None:
        def load(name: str) -> None:
            raise problem

        monkeypatch.setattr(module.importlib, "import_module", load)

    gone = OSError("libgomp.so.1: cannot open shared object file: No such file or directory")
    fails(gone)
    (said,) = module._missing()
    assert said.startswith("lightgbm needs the system's library libgomp.so.1,") and "apt-get install libgomp1" in said
    fails(OSError("libother.so: wrong ELF class"))
    assert module._missing() == ("lightgbm needs libother.so: wrong ELF class",)
    fails(ModuleNotFoundError("lightgbm"))
    assert module._missing() == ()


def test_tuning_without_a_library_of_the_system_says_what_to_install() -> None:
    with (
        pytest.raises(UserError, match=r"tuning needs the system's library libgomp.so.1.*apt-get install libgomp1"),
        needed_for("tuning"),
    ):
        raise OSError("libgomp.so.1: cannot open shared object file")
    with pytest.raises(OSError, match="other"), needed_for("tuning"):
        raise OSError("other")
