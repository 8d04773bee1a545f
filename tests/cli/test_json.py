"""`--json`: one JSON value on the standard output and nothing else, that says what the table says, in documented fields."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.models import write_dense
from tests.records.samples import failure, matmul, trial
from tests.report.samples import tuned as tuned_file
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app, recorded, show
from tensorsmith.cli.arrays import Written
from tensorsmith.cli.bench import Benched, BenchedVariant, Race, System
from tensorsmith.cli.compile import Saved, SavedVariant
from tensorsmith.cli.demo import Shown
from tensorsmith.cli.doctor import Health, SelfTest
from tensorsmith.cli.executables import Kernels
from tensorsmith.cli.export import Exported
from tensorsmith.cli.fleet import Fleet
from tensorsmith.cli.listing import NamedTarget, NamedWorkload
from tensorsmith.cli.lock import Locked
from tensorsmith.cli.peers import Peer
from tensorsmith.cli.run import Output, Ran
from tensorsmith.cli.sketches import Derived, NumberedSketch
from tensorsmith.cli.tasks import TaskLine, TaskList
from tensorsmith.cli.tune import Tuned, TunedVariant
from tensorsmith.frontends.operators import Operator
from tensorsmith.graph.weights_error import OutputError, WeightsError
from tensorsmith.locking import Check, CheckedKernel, CheckedOutput
from tensorsmith.measure import referee
from tensorsmith.measure.fleet.published import FleetStatus
from tensorsmith.measure.runner import NodeStatus
from tensorsmith.records import Store, Timing
from tensorsmith.records.explain import KeyPart
from tensorsmith.records.lines import Counts
from tensorsmith.report import render
from tensorsmith.runtime.executable import Benchmark, Memory
from tensorsmith.runtime.profile import KernelTime
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets import neighbours
from tensorsmith.targets.target import Target, native

W = matmul()
DOCS = Path(__file__).parents[2] / "docs" / "commands.md"


def said(*arguments: object, code: int = 0) -> str:
    """What a command prints for people; blanks and lines of tables are left out."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(re.sub("[│┃]", " ", result.stdout).split())


def answer(*arguments: object, code: int = 0) -> Any:
    """The value on the standard output."""
    result = CliRunner().invoke(app, [*(str(a) for a in arguments), "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture
def dense(tmp_path: Path) -> str:
    return write_dense(tmp_path / "dense.onnx")


@pytest.fixture
def records(dense: str, tmp_path: Path) -> str:
    """A record of the first task of a model: 2 microseconds; and of a matrix product, with failures."""
    workload, target = ts.load(dense).tasks()[0].workload, native()
    with Store.open(tmp_path / "tune.db") as store:
        timing = Timing("warm", target.cores)
        store.add(workload, target, timing, [Trial(plain_candidate(workload), Status.OK, 2e-6)])
        store.add(W, target, timing, [trial(W, 2e-3, 3, spread=0.05), failure(W, i=7), trial(W, 1e-3, 2)], run="one")
        store.add(W, target, timing, [trial(W, 4e-3, 6, at_least=True)])
    return str(tmp_path / "tune.db")


# -- each command ------------------------------------------------------------------------------------------------------------


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tensorsmith.cli.doctor"]
    monkeypatch.setattr(module, "_problem", lambda name: "all of it" if name == "GMM-small" else None)
    found, text = answer("doctor", code=1), said("doctor", code=1)
    assert found["target"] == native().describe() and found["target_key"] == native().key
    assert f"numpy {found['packages']['numpy']}" in text and f"python {found['python']}" in text
    assert found["packages"]["tensorsmith"] and found["peak_flops"] > 0 and found["memory_bytes_per_second"] > 0
    assert {t["workload"]: t["problem"] for t in found["self_tests"]}["GMM-small"] == "all of it"
    assert not found["ok"] and "self-test GMM-small: WRONG: all of it" in text and "self-test C2D-small: ok" in text


def test_names() -> None:
    (one,) = answer("workloads", "GMM-3-b16")
    assert f"{one['name']} {one['operator']} {one['title']} {one['flops'] / 1e6:,.2f}" in said("workloads", "GMM-3-b16")
    text = said("targets")
    for t in answer("targets"):
        assert f"{t['name']} {t['kind']} {t['machine']} {t['cores']} {t['key']}" in text


def test_ops() -> None:
    found, text = answer("ops", "conv", "--system", "onnx"), said("ops", "conv", "--system", "onnx")
    (conv,) = (o for o in found if o["operator"] == "Conv")
    assert conv == {
        "system": "onnx", "operator": "Conv", "since": 1, "by_definition": False, "overloads": [],
        "types": ["f32", "f64", "f16", "bf16"],
    }  # fmt: skip
    assert "Conv 1 f32 f64 f16 bf16" in text and f"ONNX: {len(found)} operators" in text


def test_tasks(dense: str, records: str) -> None:
    found, text = answer("tasks", dense, "--db", records, "--profile"), said("tasks", dense, "--db", records)
    first = found["tasks"][0]
    assert (first["task"], first["calls"], first["flops"], first["best_seconds"]) == (0, 1, 2 * 4 * 8 * 16 + 64, 2e-6)
    assert sum(t["share_of_flops"] for t in found["tasks"]) == pytest.approx(1.0)
    assert first["share_of_seconds"] > 0 and first["schedule"] == "record"
    assert f"0 {first['name']} {first['shapes']} 1 0.00 {first['share_of_flops']:.1%} 2.0 us" in text
    assert f"{found['model']}: {len(found['tasks'])} tasks" in text and f"{found['calls']} calls" in text
    assert answer("tasks", dense)["tasks"][0]["best_seconds"] is None


def test_sketches() -> None:
    found = answer("sketches", "GMM-1-b1", "--rules", "ansor")
    assert found["count"] == len(found["sketches"]) == 3
    assert f"--- sketch 2 of 3 {' '.join(found['sketches'][2]['text'].split())}" in said("sketches", "GMM-1-b1", "--rules", "ansor")
    assert [s["number"] for s in answer("sketches", "GMM-1-b1", "--rules", "ansor", "--only", 1)["sketches"]] == [1]


def test_compile_and_run(dense: str, records: str, tmp_path: Path) -> None:
    file = tmp_path / "dense.tsm"
    found, text = (f("compile", dense, "--db", records, "-o", file) for f in (answer, said))
    assert found["file"] == str(file) and found["file_bytes"] == file.stat().st_size and found["target"] == native().key
    schedules = found["kernels"]["schedules"]
    assert schedules["record"] == 1 and sum(schedules.values()) == found["kernels"]["kernels"]
    assert f"{found['kernels']['kernels']} kernels in {found['kernels']['steps']} steps: 1 with a record" in text
    found, text = (f("run", file, "--output", tmp_path / "out.npz") for f in (answer, said))
    y = found["outputs"][0]
    assert (y["name"], y["type"], y["shape"], y["not_finite"]) == ("y", "float32", [4, 16], 0)
    assert f"y float32 4x16 {y['least']:.6g} {y['mean']:.6g} {y['largest']:.6g} 0" in text
    assert found["written"] == [{"file": str(tmp_path / "out.npz"), "outputs": ["y", "sum"]}]


def test_export(dense: str, tmp_path: Path) -> None:
    words = ("export", dense, "--name", "net", "--target", "cortex-a53", "-o", tmp_path / "library")
    found, text = (f(*words) for f in (answer, said))
    assert found["target"] == Target.named("cortex-a53").key and found["kernels"]["schedules"]["record"] == 0
    assert sorted(found["files"]) == sorted(str(f.relative_to(tmp_path / "library")) for f in (tmp_path / "library").rglob("*.*"))
    assert {"net.h", "objects/net_k0.o"} <= set(found["files"]) and "net.h" in text


def test_bench(dense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tensorsmith.cli.bench"]
    timed = referee.Comparison({"tensorsmith": referee.Timing(2e-3, (3e-3, 4e-3, 3e-3), 1, disturbed=1)}, retaken=5)
    monkeypatch.setattr(module, "compare", lambda runs, ours, seconds: timed)
    found, text = (f("bench", dense, "--vs", "", "--profile") for f in (answer, said))
    (system,) = found["race"]["systems"]
    assert system == {
        "system": "tensorsmith", "best": 2e-3, "median": 3e-3, "relative": 1.0, "median_relative": 1.0, "slots": 3, "disturbed": 1,
        "largest_difference": None, "same": True,
    }  # fmt: skip
    assert found["race"]["retaken"] == 5 and "after 5 retakes of disturbed ones" in text
    assert "tensorsmith 3.00 ms 1.00x 2.00 ms 1.00x 1 of 3" in text and f"{found['threads']} threads" in text
    assert sum(k["share"] for k in found["profile"]) == pytest.approx(1.0) and found["profile"][0]["name"] in text
    assert found["report"] is None and found["notes"] == []


def test_bench_has_the_ratio_by_medians_and_by_bests(dense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tensorsmith.cli.bench"]
    timings = {"tensorsmith": referee.Timing(2e-3, (4e-3,), 1), "other": referee.Timing(3e-3, (5e-3,), 1, disturbed=1)}
    monkeypatch.setattr(module, "compare", lambda runs, ours, seconds: referee.Comparison({name: timings[name] for name in runs}))
    monkeypatch.setattr(module, "make_peers", lambda *given: [Peer("other", lambda: None, [])])
    monkeypatch.setattr(module, "largest_difference", lambda a, b: (0.5, True))
    found, text = (f("bench", dense) for f in (answer, said))
    ours, other = found["race"]["systems"]
    assert (ours["relative"], ours["median_relative"], ours["disturbed"]) == (1.0, 1.0, 0)
    assert (other["relative"], other["median_relative"], other["disturbed"]) == (1.5, 1.25, 1)
    assert "other 5.00 ms 1.25x 3.00 ms 1.50x 1 of 1 0.5" in text


def test_bench_notes_what_disturbs_it(dense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(0, 1000, 10))

    def read() -> neighbours.Reading:
        moment = float(next(moments))
        return neighbours.Reading(moment, 2, busy=2.0 * moment, ours=0.5 * moment)

    monkeypatch.setattr(neighbours, "read", read)
    monkeypatch.setattr(neighbours, "measuring", lambda: [neighbours.Measuring("tuning", 4711)])
    found = answer("bench", dense, "--vs", "", "--seconds", 0)["notes"]
    for note, beginning in zip(found, ("another measurement (tuning", "the machine is busy", "the machine was busy"), strict=True):
        assert note.startswith(beginning)


def test_tune(dense: str, tmp_path: Path) -> None:
    db, file = tmp_path / "tune.db", tmp_path / "dense.tsm"
    result = CliRunner().invoke(app, ["tune", dense, "--trials", "3", "--db", str(db), "-o", str(file), "--json"])
    (found,) = json.loads(result.stdout)
    assert "trials" in result.stderr  # the progress
    assert found["name"] == dense and found["model"] == "dense" and found["program"] is None
    assert found["saved"]["file"] == str(file) and found["time"]["best"] > 0
    assert sum(r["trials"] for r in found["records"]) == 3
    assert found["records"] == answer("records", db, "best", dense)
    (found,) = answer("tune", "GMM-small", "--trials", 0, "--db", db)
    assert found["model"] is None and "for" in found["program"] and found["records"] == []


def test_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(Race((System("tuned", 1e-3, 2e-3, 1.0, 1.0, 4, 0, None, True),), 0, 3.0), 1234, ("onnxruntime is left out",))
    monkeypatch.setattr(sys.modules["tensorsmith.cli.demo"], "_demo", lambda path, seconds: shown)
    found = answer("demo")
    assert found["race"]["systems"][0]["best"] == 1e-3 and (found["file_bytes"], found["notes"]) == (1234, list(shown.notes))


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "library", lambda: "/* the library */")
    monkeypatch.chdir(tmp_path)
    found = answer("report", tuned_file(tmp_path / "tune.db"))
    assert found["page"] is None and not (tmp_path / "report.html").exists()
    (setting,) = found["settings"]
    assert setting["trials"] == 10 and [t["name"] for t in setting["tasks"]] == ["D f32[64, 64]", "C f32[32, 16]"]
    assert answer("report", tmp_path / "tune.db", "-o", "x.html")["page"] == "x.html" and (tmp_path / "x.html").exists()
    result = CliRunner().invoke(app, ["report", str(tmp_path / "tune.db"), "--watch", "--json"])
    assert "give one of the two" in str(result.exception)


def test_records(records: str) -> None:
    found, text = answer("records", records), said("records", records)
    kept = next(k for k in found if k["key"] == W.key)
    assert (kept["trials"], kept["failed"], kept["best_seconds"], kept["cache"], kept["threads"]) == (
        4,
        1,
        1e-3,
        "warm",
        native().cores,
    )
    assert f"{W.key} {kept['workload']} {kept['target']} {Timing('warm', native().cores)} 4 1 1,000.0 us" in text
    assert answer("records", records, "best", W.key)[0]["kept"] == kept
    result = CliRunner().invoke(app, ["records", records, "--json", "best", W.key])  # before the command, too
    assert json.loads(result.stdout) == answer("records", records, "best", W.key)


def test_best_top_and_history(records: str) -> None:
    (found,), text = answer("records", records, "best", W.key), said("records", records, "best", W.key)
    best = found["best"]
    assert best["seconds"] == 1e-3 and best["candidate"]["decisions"]["C.i.1"] == 2 and found["why"] is None
    assert "1,000.0 us (spread 0.0%)" in text and f"candidate {best['candidate']['key']}" in text
    assert " ".join(best["candidate"]["sketch"].split()) in text
    (found,) = answer("records", records, "top", W.key)
    assert [(c["seconds"], c["spread"]) for c in found["candidates"]] == [(1e-3, 0.0), (2e-3, 0.05)]
    (found,), text = answer("records", records, "history", W.key), said("records", records, "history", W.key)
    assert [(t["number"], t["status"], t["seconds"], t["at_least"], t["best_seconds"]) for t in found["trials"]] == [
        (1, "ok", 2e-3, False, 2e-3), (2, "crashed", None, False, 2e-3), (3, "ok", 1e-3, False, 1e-3), (4, "ok", 4e-3, True, 1e-3),
    ]  # fmt: skip
    for t in found["trials"]:
        assert t["candidate"] in text
    assert [t["number"] for t in answer("records", records, "history", W.key, "--last", 2)[0]["trials"]] == [3, 4]


def test_failures_and_why(records: str) -> None:
    (found,), text = answer("records", records, "failures"), said("records", records, "failures")
    (failed,) = found["failures"]
    assert (failed["status"], failed["cause"], failed["count"]) == ("crashed", "segmentation fault", 1)
    assert "1 x crashed: segmentation fault" in text and failed["example"]["key"] in text
    (found,) = answer("records", records, "why", W.key)
    assert (
        found["seconds"] == 1e-3
        and found["reason"] is None
        and [p["name"] for p in found["parts"]] == ["workload", "target", "timing"]
    )
    (found,), text = answer("records", records, "why", "GMM-1-b1"), said("records", records, "why", "GMM-1-b1")
    assert found["seconds"] is None and f"no record is found: {found['reason']}" in text


def test_moving_records(records: str, tmp_path: Path) -> None:
    assert answer("records", tmp_path / "new.db", "merge", records) == {"added": 5, "present": 0, "skipped": {}}
    lines = CliRunner().invoke(app, ["records", records, "export", "-"]).stdout
    (tmp_path / "lines").write_text(lines + "nonsense\n")
    found = answer("records", tmp_path / "new.db", "import", tmp_path / "lines")
    assert (found["added"], found["present"], sum(found["skipped"].values())) == (0, 5, 1)
    assert answer("records", records, "recover", tmp_path / "saved.db")["added"] == 5


# -- all of them ---------------------------------------------------------------------------------------------------------------


def commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in getattr(group, "commands", {}).items():
        yield (*names, name), command
        yield from commands(command, (*names, name))


def test_every_command_that_shows_something_has_it() -> None:
    import typer.main

    found = dict(commands(typer.main.get_command(app)))
    without = [names for names, c in found.items() if not any("--json" in p.opts for p in c.params)]
    # `serve` answers requests, `export` writes JSON lines, `resources` JSON in any case; `fleet` alone shows what it can do
    assert without == [("serve",), ("records", "export"), ("fleet",), ("fleet", "resources")]


SHAPES: dict[str, tuple[type, ...]] = {
    "doctor": (Health, SelfTest),
    "workloads": (NamedWorkload,),
    "targets": (NamedTarget,),
    "ops": (Operator,),
    "tasks": (TaskList, TaskLine),
    "sketches": (Derived, NumberedSketch),
    "tune": (Tuned, TunedVariant, Kernels, Benchmark),
    "compile": (Saved, SavedVariant, Memory, WeightsError, OutputError),
    "export": (Exported,),
    "run": (Ran, Output, Written),
    "bench": (Benched, BenchedVariant, Race, System, KernelTime),
    "lock": (Locked,),
    "check-lock": (Check, CheckedKernel, CheckedOutput),
    "demo": (Shown,),
    "fleet": (Fleet, FleetStatus, NodeStatus),
    "records": (
        recorded.Kept, recorded.Best, recorded.Timed, recorded.Described, recorded.ModelRecords, recorded.TaskRecord, recorded.Top,
        recorded.History, recorded.TrialLine, recorded.Failures, recorded.Failed, recorded.Why, KeyPart, Counts,
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", SHAPES)
def test_every_field_is_documented(command: str) -> None:
    section = DOCS.read_text().split(f"### {command}\n")[1].split("\n### ")[0]
    for shape in SHAPES[command]:
        for field in dataclasses.fields(shape):
            assert f"`{field.name}`" in section, (command, shape.__name__, field.name)


def test_what_is_not_finite_is_null() -> None:
    assert json.loads(show.to_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": Status.OK})) == {
        "a": None,
        "b": [None, 1.5],
        "c": "ok",
    }


def test_whatever_else_is_printed_goes_to_the_error_stream(tmp_path: Path) -> None:
    """Also what a definition prints, and what is written to the descriptor from compiled code."""
    (tmp_path / "loud.py").write_text(
        "import os\nimport tensorsmith as ts\nprint('printed')\nos.write(1, b'written\\n')\n"
        "A = ts.placeholder((8, 8), name='A')\ntensors = [A, ts.compute((8, 8), lambda i, j: A[i, j] * 2.0, name='B')]\n"
    )
    command = [sys.executable, "-c", "from tensorsmith.cli import main; main()", "sketches", str(tmp_path / "loud.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["count"] >= 1
    assert "printed" in done.stderr and "written" in done.stderr


def test_a_mistake_leaves_the_output_empty() -> None:
    command = [sys.executable, "-c", "from tensorsmith.cli import main; main()", "tasks", "nothing.onnx", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "tensorsmith: there is no file nothing.onnx\n")
