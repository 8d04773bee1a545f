"""The benchmark of the task scheduler: equal terms for both strategies, and what an interrupted one leaves."""

import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import models
import scheduler
from models import Network
from network_overhead import SIZE, chain
from scheduler import Curve
from tensorsmith.compile import compile as build
from tensorsmith.tune import NetworkProgress

CURVES = {
    0: {"gradient": [(8, 4e-3), (16, 2e-3)], "round-robin": [(8, 4e-3), (16, 3e-3)]},
    1: {"gradient": [(8, 4e-3), (16, 3e-3)], "round-robin": [(8, 4e-3), (16, 2.4e-3)]},
    2: {"gradient": [(8, 4e-3), (16, 2.5e-3)], "round-robin": [(8, 4e-3), (16, 3.5e-3)]},
}
MEASURED = {"gradient": 2e-3, "round-robin": 3e-3}


def rows() -> dict[str, dict[str, object]]:
    made = {n: {s: Curve(p, 5e-3, 7.0, 16) for s, p in of.items()} for n, of in CURVES.items()}
    return {f"net, seed {n}": scheduler.row(curves, MEASURED, 16) for n, curves in made.items()}


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, object]]:
    """A tiny network whose search is replaced; what was asked of it."""
    import onnx

    path = tmp_path / "chain.onnx"
    onnx.save(chain(2), path)
    network = Network("chain", path, {"x": np.ones((1, SIZE), np.float32)})
    monkeypatch.setitem(models.MODELS, "chain", lambda name, batch: network)
    monkeypatch.setattr(scheduler, "SECONDS", 0.0)
    asked: list[dict[str, object]] = []

    def tune(model, *, trials, seed, schedule, database, on_progress):
        asked.append({"strategy": schedule.strategy, "trials": trials, "seed": seed, "database": database})
        assert not database.exists()
        database.write_bytes(b"")
        for n in (0, trials):
            on_progress(NetworkProgress(("chain",), (1e-3,), (2e-3,), 1, 1, "matmul", n, trials, 1.0))

    monkeypatch.setattr(scheduler.ts, "tune", tune)
    monkeypatch.setattr(scheduler.ts, "compile", lambda model, database: build(model))
    return asked


def test_equal_terms_and_record_files_of_their_own(searches, capsys):
    scheduler.main(["--model", "chain", "--trials", "12", "--seeds", "3"])
    order = ["gradient", "round-robin", "round-robin", "gradient", "gradient", "round-robin"]
    assert [(s["strategy"], s["seed"], s["trials"]) for s in searches] == [(s, n // 2, 12) for n, s in enumerate(order)]
    assert len({s["database"] for s in searches}) == len(searches)
    assert "ahead on" in capsys.readouterr().out


def test_the_same_command_does_what_is_missing(searches, tmp_path, monkeypatch):
    words = [
        "--model",
        "chain",
        "--trials",
        "12",
        "--seeds",
        "2",
        "--folder",
        str(tmp_path / "runs"),
        "--json",
        str(tmp_path / "f"),
    ]
    whole = scheduler.ts.tune

    def interrupted(model, **options):
        if len(searches) == 2:
            options["database"].write_bytes(b"half a run")
            raise KeyboardInterrupt
        whole(model, **options)

    monkeypatch.setattr(scheduler.ts, "tune", interrupted)
    with pytest.raises(SystemExit, match="the same command does what is missing"):
        scheduler.main(words)
    assert [(s["strategy"], s["seed"]) for s in searches] == [("gradient", 0), ("round-robin", 0)]
    monkeypatch.setattr(scheduler.ts, "tune", whole)  # which insists on a new record file
    scheduler.main(words)
    assert [(s["strategy"], s["seed"]) for s in searches[2:]] == [("round-robin", 1), ("gradient", 1)]
    scheduler.main(words)
    assert len(searches) == 4
    assert set(json.loads((tmp_path / "f").read_text())) == {"_run", "chain, seed 0", "chain, seed 1"}


def test_a_run_of_other_trials_is_another(searches, tmp_path):
    for trials in ("12", "13"):
        scheduler.main(["--model", "chain", "--trials", trials, "--seeds", "1", "--folder", str(tmp_path)])
    assert [s["trials"] for s in searches] == [12, 12, 13, 13]


def test_a_curve_is_kept_as_it_is(tmp_path):
    curve = Curve([(8, 4e-3), (16, 2e-3)], 5e-3, 7.0, 16)
    read = Curve(**json.loads(json.dumps(asdict(curve))))
    assert [curve.at(n) for n in (7, 8, 15, 99)] == [read.at(n) for n in (7, 8, 15, 99)] == [None, 4e-3, 4e-3, 2e-3]
    assert read.trials_to(3e-3) == 16
    assert read.trials_to(1e-3) is None


def test_medians_and_seeds():
    found = scheduler.medians(list(rows().values()))
    assert found["estimated"] == {"gradient": 2.5e-3, "round-robin": 3e-3}
    assert found["measured"] == MEASURED
    assert scheduler.verdict(list(rows().values())).splitlines() == [
        "measured: the gradient is 1.500 times as fast as round-robin (medians), ahead on 3 and equal within 1% on 0 of 3 seeds",
        "estimated: the gradient is 1.200 times as fast as round-robin (medians), ahead on 2 and equal within 1% on 0 of 3 seeds",
    ]


def test_a_difference_as_small_as_that_of_two_timings_is_none():
    curves = {s: Curve([(16, t)]) for s, t in MEASURED.items()}
    almost = [scheduler.row(curves, {"gradient": 1.0, "round-robin": r}, 16) for r in (0.995, 0.98)]
    assert "ahead on 0 and equal within 1% on 1 of 2 seeds" in scheduler.verdict(almost).splitlines()[0]


def test_the_table_has_every_seed_and_the_medians():
    console = Console(width=200, file=io.StringIO())
    console.print(scheduler.table("net", rows()))
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith("│")]
    assert len(lines) == 2 * 3 + 2
    first = [cell.strip() for cell in lines[0].strip("│").split("│")]
    assert first == [
        "net, seed 0",
        "gradient",
        "5.000 ms",
        "4.000 ms",
        "4.000 ms",
        "2.000 ms",
        "1.500",
        "16",
        "16",
        "7",
        "2.000 ms",
        "1.500",
    ]
    last = [cell.strip() for cell in lines[-2].strip("│").split("│")]
    assert last == ["median of 3", "gradient", "", "", "", "2.500 ms", "1.200", "", "", "", "2.000 ms", "1.500"]


@pytest.mark.parametrize("words", [["--trials", "0"], ["--seeds", "0"]])
def test_bad_arguments(words, capsys):
    with pytest.raises(SystemExit):
        scheduler.main(words)
    assert "1 or more" in capsys.readouterr().err
