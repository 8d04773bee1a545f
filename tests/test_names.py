"""A task has one name, wherever it is shown: in the list of tasks, in records, profiles, reports and errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.models import write_dense
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.backends import backend_of
from tensorsmith.cli import app
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.conv import conv2d
from tensorsmith.records import Store, Timing
from tensorsmith.report import collect
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.search.trial import Status, Trial
from tensorsmith.show.line import LONGEST
from tensorsmith.targets.target import native
from tensorsmith.tune import _tunable

TIMING = Timing("warm", native().cores)


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture
def tuned(tmp_path: Path) -> tuple[str, str]:
    """A model, and a record file with its tasks in it."""
    path, database = write_dense(tmp_path / "dense.onnx"), tmp_path / "tune.db"
    with Store.open(database) as store:
        for n, task in enumerate(ts.load(path).tasks()):
            trial = Trial(backend_of(native()).default_candidate(task.workload, native()), Status.OK, 1e-6 * (n + 1))
            store.add(task.workload, native(), TIMING, [trial])
    return path, str(database)


def test_one_name_in_tasks_records_profile_and_report(tuned: tuple[str, str]) -> None:
    path, database = tuned
    model = ts.load(path)
    names = {task.name for task in model.tasks()}
    assert names == {"matmul+relu f32[4, 16]", "reduce_sum f32[4]"}
    tasks, records = shown("tasks", path), shown("records", database)
    profile = ts.compile(model, database=database).profile(rounds=1)
    with Store.open(database, read_only=True) as store:
        listed = {s.title for s in store.workloads()}
        alone, with_model = collect.of_records(store), collect.of_records(store, model=model)
        kernels = collect.of_records(store, model=model, profile=profile).kernels
        example = store.workloads()[0]
        best = shown("records", database, "best", example.workload.key)
    assert listed == names
    assert {k.name for k in profile.kernels} == names == {k.title for k in profile.kernels} == {k.name for k in kernels}
    assert {t.name for t in alone.settings[0].tasks} == names == {t.name for t in with_model.settings[0].tasks}
    assert {t.name for t in _tunable([model])} == {t.name for t in model.tasks() if t.tunable}
    for text in (tasks, records, str(profile), shown("tasks", path, "--db", database, "--profile")):
        assert all(name in text for name in names), text
    assert example.title in best


def test_names_survive_export_import_and_merge(tuned: tuple[str, str], tmp_path: Path) -> None:
    _, database = tuned
    with Store.open(database) as old, Store.open(tmp_path / "new.db") as new, Store.open(tmp_path / "third.db") as third:
        old.export(tmp_path / "lines.jsonl")
        new.import_(tmp_path / "lines.jsonl")
        third.merge(tmp_path / "new.db")
        titles = [[s.title for s in store.workloads()] for store in (old, new, third)]
    assert titles[0] == titles[1] == titles[2] == ["matmul+relu f32[4, 16]", "reduce_sum f32[4]"]


def test_a_name_is_no_part_of_the_identity(tuned: tuple[str, str]) -> None:
    """Records are found whatever a workload's operators were called, and files of older versions, which have none, too."""
    path, database = tuned
    task = ts.load(path).tasks()[0].workload
    nameless = Workload(task.inputs, task.stages, task.outputs)
    assert nameless == task and hash(nameless) == hash(task)
    assert (nameless.key, nameless.canonical_key) == (task.key, task.canonical_key)
    assert nameless.title == "relu f32[4, 16]" and "operators" not in nameless.to_json()
    assert Workload.from_json(nameless.to_json()).key == Workload.from_json(task.to_json()).key == task.key
    with Store.open(database, read_only=True) as store:
        found = store.best(nameless, native(), TIMING)
    assert found is not None and found.seconds == 1e-6


def test_names_of_strangers_are_harmless() -> None:
    form = _plain().to_json()
    form["operators"] = "a\x1b[31m\nb" + "c" * 10_000
    found = Workload.from_json(form)
    assert found.title.isprintable() and len(repr(found)) <= LONGEST and found.operators.startswith("a?[31m b")
    assert found.key == _plain().key


def _plain() -> Workload:
    A = ts.placeholder((8,), name="A")
    return ts.workload([A, ts.compute((8,), lambda i: A[i] + 1.0, name="B")])


def test_other_formulations_say_which_they_are() -> None:
    x = ts.placeholder((1, 16, 16, 16), name="x")
    w = ts.placeholder((3, 3, 16, 16), name="w", constant=True)
    direct, *others = formulations(ts.workload([x, w, conv2d(x, w, 1, 1)]))
    assert re.fullmatch(r"conv\w* f32\[1, 16, 16, 16\]", direct.workload.title)
    assert others and all(f.workload.title.endswith(f"by {f.name} f32[1, 16, 16, 16]") for f in others)
