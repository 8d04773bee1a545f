"""`tensorsmith fleet`: who is there, what it does, and why somebody is idle."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.measure.fleet.other_machine import elsewhere
from tests.measure.fleet.simulation import Simulation
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.measure.fleet import published
from tensorsmith.records import Store
from tensorsmith.targets.target import native
from tensorsmith.testing.simulated import Conditions, Fault

RUN = CliRunner()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "folder", lambda: tmp_path / "fleet")


def answer(*words: str) -> dict:
    result = RUN.invoke(app, ["fleet", "status", "--json", *words])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_nobody_measures_elsewhere() -> None:
    assert answer() == {"runs": [], "asked": []}
    assert "no tuning of this machine measures elsewhere just now" in RUN.invoke(app, ["fleet", "status"]).stdout


def test_who_is_there_what_it_does_and_why_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(Conditions(3, faults=(Fault(0.0, "node-2", "slows", 3.0),)))
    write = published.Published("simulated")
    simulation.measure(50)
    write(simulation.runner)
    (run,) = answer()["runs"]
    assert run["runner"] == "simulated" and run["process"] == os.getpid() and run["open"] == 0
    nodes = {node["name"]: node for node in run["nodes"]}
    assert nodes["node-0"]["state"] == "ready" and nodes["node-0"]["trials"] > 0
    assert nodes["node-0"]["why"] == "nothing is left to hand out: the search has not asked for more"
    assert nodes["node-2"]["state"] == "set apart" and "the calibration kernel took" in nodes["node-2"]["why"]
    text = RUN.invoke(app, ["fleet", "status"]).stdout
    assert "measures by simulated" in text and "set apart" in text
    simulation.runner.close()
    write(simulation.runner)
    assert answer()["runs"] == []


def test_what_a_dead_process_has_left_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    left = tmp_path / "fleet" / "1-2.json"
    left.write_text(json.dumps({"runner": "x", "process": 2**22 + 1, "written": 0, "open": 0, "queued": 0, "nodes": []}))
    (tmp_path / "fleet" / "2-2.json").write_text("no JSON")
    assert answer()["runs"] == [] and not left.exists()


def test_machines_are_asked(tmp_path: Path) -> None:
    well, away = answer("--runner", elsewhere(tmp_path), "--runner", "sh -c 'echo no route to host >&2; exit 255'")["asked"]
    assert well["state"] == "ready" and well["target"] == native().key and well["version"] == ts.__version__
    assert away["state"] == "lost"
    assert away["why"] == "no node answered, the command ended with exit status 255: no route to host"


def test_what_a_machine_announces_to_ray() -> None:
    said = RUN.invoke(app, ["fleet", "resources", "--target", "cortex-a53"]).stdout
    assert json.loads(said) == {f"target:{ts.Target.named('cortex-a53').key}": 1}


OTHER = "cortex-a53" if not native().key.startswith("aarch64") else "znver4"


def test_another_machine_needs_a_runner(tmp_path: Path) -> None:
    result = RUN.invoke(app, ["tune", "GMM-small", "--target", OTHER, "--trials", "2", "--db", str(tmp_path / "tune.db")])
    assert isinstance(result.exception, UserError)
    assert 'To measure on such a machine give --runner, as in "ssh board"' in told(result.exception)


def test_a_tuning_for_another_machine(tmp_path: Path) -> None:
    """Programs for it are measured by a runner of the user's own, and what comes out is not timed here."""
    (tmp_path / "place.py").write_text(
        "from tensorsmith.measure.fleet.runner import FleetRunner\n"
        "from tensorsmith.measure.places import Place\n"
        "from tensorsmith.testing.simulated import Conditions, SimulatedFleet\n\n\n"
        "def make(target, warn):\n"
        "    fleet = SimulatedFleet(Conditions(2), target)\n"
        "    return FleetRunner('mine', fleet, target, warn=warn, clock=fleet.clock)\n\n\n"
        "PLACE = Place('mine', make)\n"
    )
    database = tmp_path / "tune.db"
    words = ["tune", "GMM-small", "--target", OTHER, "--runner", f"{tmp_path}/place.py:PLACE", "--db", str(database)]
    result = RUN.invoke(app, [*words, "--trials", "4", "--policy", "random", "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    (tuned,) = json.loads(result.stdout)
    assert tuned["time"] is None and tuned["program"]
    with Store.open(database, read_only=True) as store:
        assert {s.target.key for s in store.workloads()} == {ts.Target.named(OTHER).key}
