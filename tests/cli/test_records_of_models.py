"""`tensorsmith records FILE best MODEL.onnx`: the best record of every task, and what share of the time it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.models import write_dense
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.recorded import best_of_model, summaries_of
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.ops import catalogue
from tensorsmith.records import Store, Timing
from tensorsmith.records.keys import IN_NETWORK
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

WARM, STEPS = Timing("warm", native().cores), Timing(IN_NETWORK, native().cores)

DEFINITION = """
import tensorsmith as ts
A = ts.placeholder((16, 24), name="A")
tensors = [A, ts.compute((16, 24), lambda i, j: A[i, j] * 2.0, name="B")]
"""


@pytest.fixture
def dense(tmp_path: Path) -> str:
    return write_dense(tmp_path / "dense.onnx")


@pytest.fixture
def file(dense: str, tmp_path: Path) -> Path:
    """Records of both tasks of a model: of the first alone, 6 us; of the second in the network, 2 us."""
    first, second = (t.workload for t in ts.load(dense).tasks())
    with Store.open(tmp_path / "tune.db") as store:
        store.add(first, native(), WARM, [Trial(plain_candidate(first), Status.OK, 6e-6)])
        store.add(second, native(), WARM, [Trial(plain_candidate(second), Status.OK, 1e-6)])
        store.add(second, native(), STEPS, [Trial(plain_candidate(second), Status.OK, 2e-6)])
    return tmp_path / "tune.db"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["records", *map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.replace("│", " ").split())


def test_the_best_record_of_every_task_with_its_share(dense: str, file: Path) -> None:
    with Store.open(file, read_only=True) as store:
        (found,) = best_of_model(store, ts.load(dense))
    assert [(t.seconds, t.share, t.source) for t in found.tasks] == [
        (6e-6, pytest.approx(0.75), "alone"),
        (2e-6, pytest.approx(0.25), "in the network"),
    ]
    assert (found.model, found.trials, found.seconds) == ("dense", 2, pytest.approx(8e-6))
    assert all(t.calls == 1 and t.candidate for t in found.tasks)
    text = run(file, "best", dense)
    assert f"dense on {native().key}, {WARM}: 2 trials" in text and "8.0 us now" in text
    for t in found.tasks:
        assert f"1 {t.seconds * 1e6:.1f} us {t.share:.1%} 1" in text and f"{t.source} {t.candidate} {t.key}" in text


def test_a_task_without_a_record_is_estimated(dense: str, tmp_path: Path) -> None:
    first = ts.load(dense).tasks()[0].workload
    with Store.open(tmp_path / "half.db") as store:
        store.add(first, native(), WARM, [Trial(plain_candidate(first), Status.OK, 6e-6)])
        (found,) = best_of_model(store, ts.load(dense))
    (other,) = (t for t in found.tasks if t.source == "estimated")
    assert other.candidate is None and other.trials == 0 and other.seconds is not None and 0 < other.share < 1


def test_other_questions_about_a_model(dense: str, file: Path) -> None:
    keys = [t.workload.key for t in ts.load(dense).tasks()]
    for command in ("top", "history"):
        text = run(file, command, dense)
        assert all(f"({key})" in text for key in keys)
    assert run(file, "failures", dense) == "nothing failed"
    assert run(file, "why", dense).count("found: ") == 2


def test_shapes_of_a_model(file: Path, tmp_path: Path) -> None:
    model = write_dense(tmp_path / "open.onnx", ("rows", 8))
    assert "6.0 us" in run(file, "best", model, "--shape", "rows=4")
    result = CliRunner().invoke(app, ["records", str(file), "best", model, "--shape", "rows=5"])
    assert isinstance(result.exception, UserError) and "has no record of any task of dense" in str(result.exception)
    result = CliRunner().invoke(app, ["records", str(file), "best", model])
    assert isinstance(result.exception, UserError) and "Bind them: --shape rows=N" in told(result.exception)
    result = CliRunner().invoke(app, ["records", str(file), "best", "GMM-small", "--shape", "rows=5"])
    assert "only the shapes of a model can be given" in str(result.exception)


def test_definitions_and_names_of_the_catalogue(tmp_path: Path) -> None:
    named = catalogue.get("GMM-small").workload()
    (tmp_path / "mine.py").write_text(DEFINITION)
    a = ts.placeholder((16, 24), name="A")
    mine = ts.workload([a, ts.compute((16, 24), lambda i, j: a[i, j] * 2.0, name="B")])
    with Store.open(tmp_path / "tune.db") as store:
        for workload, seconds in ((named, 3e-6), (mine, 4e-6)):
            store.add(workload, native(), WARM, [Trial(plain_candidate(workload), Status.OK, seconds)])
        assert [s.workload.key for s in summaries_of(store, "GMM-small")] == [named.key]
    assert "3.0 us" in run(tmp_path / "tune.db", "best", "GMM-small")
    assert "4.0 us" in run(tmp_path / "tune.db", "best", tmp_path / "mine.py")
    assert "4.0 us" in run(tmp_path / "tune.db", "best", mine.key)
