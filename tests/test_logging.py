"""What the package logs, under the name `tensorsmith`: nothing unless asked, and what is worth it at the level that is said."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from tests.measure.small import BAD, LIMITS, candidate, fault, matmul
from tests.show.things import model
from tests.tuning.fakes import FakeMeasurer
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith import build as building
from tensorsmith.cli import app
from tensorsmith.errors import Refusal
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.workshop import Workshop
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.targets.target import native


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level and record.name.startswith("tensorsmith.")]


def test_nobody_is_bothered() -> None:
    """A program that configures no logging sees nothing of it, warnings included."""
    script = "import logging, tensorsmith; logging.getLogger('tensorsmith.build').warning('falls back')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == done.stderr == ""
    logger = logging.getLogger("tensorsmith")
    assert [type(h) for h in logger.handlers] == [logging.NullHandler] and logger.level == logging.NOTSET


def test_a_search_says_when_it_begins_and_ends_and_who_won(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measurer(*arguments: object, **options: object) -> FakeMeasurer:
        return FakeMeasurer(lambda n: 1e-6 * (5 - n % 4))

    monkeypatch.setattr("tensorsmith.tuning.tasks.formulation.Measurer", measurer)
    monkeypatch.setattr("tensorsmith.measure.workshop.Workshop.start", lambda self: None)
    caplog.set_level(logging.DEBUG, "tensorsmith")
    ts.tune(matmul(), trials=8, policy="random", on_progress=lambda progress: None)
    said = messages(caplog, logging.INFO)
    assert said[0].startswith(f"a search begins: 1 task on {native().key}, Budget(trials=8")
    assert said[1] == "the search is over: 8 trials, all its trials are done"
    assert any(text.startswith("a final of ") and "C f32[16, 32]" in text and " wins, " in text for text in said)
    assert "next: C, up to 8 trials" in messages(caplog, logging.DEBUG)
    assert messages(caplog, logging.WARNING) == []


def test_a_worker_that_dies_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    workload = matmul()
    caplog.set_level(logging.INFO, "tensorsmith")
    with Workshop(1, LIMITS, warn=warnings.warn) as workshop:
        measurer = Measurer(workload, native(), runner=workshop, hook=fault("segfault_in_run"))
        (trial,) = measurer.measure([candidate(workload, BAD)])
    assert trial.status is Status.CRASHED
    assert any(text.startswith("a measurement worker died of SIG") for text in messages(caplog, logging.WARNING))


def test_records_that_are_left_out_are_a_warning_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    workload, timing, path = matmul(), Timing("warm", 2), tmp_path / "tune.db"
    with Store.open(path) as store:
        store.add(workload, native(), timing, [Trial(candidate(workload, n), Status.OK, 1e-6) for n in (1, 2, 3)])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE record SET candidate = '{}' WHERE id > 1")
    connection.commit()
    connection.close()
    with Store.open(path) as store:
        assert len(store.history(workload, native(), timing)) == 1 and store.skipped.total() == 2
    (text,) = messages(caplog, logging.WARNING)
    assert text.startswith(f"records of {path} are left out: candidate: ")


def test_a_fallback_is_a_warning_besides_the_one_that_python_shows(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(workload: object, target: object) -> None:
        raise Refusal("too odd")

    monkeypatch.setattr(building, "likely", none)
    with pytest.warns(UserWarning, match="plain loops are used"):
        ts.compile(matmul())
    (text,) = messages(caplog, logging.WARNING)
    assert text == "C f32[16, 32] falls back to plain loops"


def test_compiling_says_how_many_records_there_are(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tensorsmith")
    ts.compile(model(), target="znver3")
    (text,) = messages(caplog, logging.INFO)
    assert text.startswith("compiling dense for x86_64/znver3/") and text.endswith(": 0 of 2 tasks have a record")


@pytest.mark.parametrize(("given", "levels"), [([], set()), (["-v"], {"INFO"}), (["-vv"], {"INFO", "DEBUG"})])
def test_the_command_line_logs_to_the_error_stream(
    given: list[str], levels: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(loaded: object, **options: object) -> ts.Model:
        logger = logging.getLogger("tensorsmith.tuning.run")
        logger.info("a search begins")
        logger.debug("next")
        assert options["verbose"] is bool(given)
        return ts.compile(loaded)

    (tmp_path / "w.py").write_text(
        "import tensorsmith as ts\nA = ts.placeholder((8,), name='A')\n"
        "tensors = [A, ts.compute((8,), lambda i: A[i] + 1.0, name='B')]\n"
    )
    monkeypatch.setattr(sys.modules["tensorsmith.cli.tune"], "search", search)
    result = CliRunner().invoke(app, ["tune", str(tmp_path / "w.py"), "--db", str(tmp_path / "tune.db"), *given])
    assert result.exit_code == 0, (result.output, result.exception)
    assert {line.split()[1] for line in result.stderr.splitlines()} == levels
    assert "INFO" not in result.stdout and logging.getLogger("tensorsmith").level == logging.NOTSET
    assert len(logging.getLogger("tensorsmith").handlers) == 1
