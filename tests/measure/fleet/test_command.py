"""Measuring by a command: a real node in a process with an environment of its own, and what can be wrong with it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.measure.fleet.other_machine import elsewhere, script
from tests.measure.small import BAD, FAULTS, LIMITS, candidates, fault, matmul, unrolls

import tensorsmith as ts
from tensorsmith.errors import UserError, install
from tensorsmith.measure.fleet.command import Commands, whole_command
from tensorsmith.measure.fleet.imports import IMPORTS
from tensorsmith.measure.fleet.members import Rules
from tensorsmith.measure.fleet.node import MARK
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.places import as_place
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status
from tensorsmith.targets.target import Target, native

WORKLOAD = matmul()
ALLOWED = {IMPORTS: str(FAULTS)}  # what a node may import: the faults of these tests


@contextmanager
def runner(command: str, target: Target | None = None, rules: Rules | None = None) -> Iterator[tuple[FleetRunner, list[str]]]:
    said: list[str] = []
    nodes = Commands({command: shlex.split(command)})
    with FleetRunner(command, nodes, target or native(), limits=LIMITS, warn=said.append, rules=rules) as made:
        yield made, said


def trouble(command: str, target: Target | None = None) -> str:
    """What the user is told."""
    with (
        runner(command, target) as (made, _),
        Measurer(WORKLOAD, target or native(), runner=made) as m,
        pytest.raises(UserError) as raised,
    ):
        m.measure(candidates(WORKLOAD, 1))
    said = str(raised.value)
    assert "\n" not in said and said.startswith(f"runner {command!r}: ")
    return said.removeprefix(f"runner {command!r}: ")


def test_answers_are_checked_over_there_against_the_reference_that_was_sent(tmp_path: Path) -> None:
    with runner(elsewhere(tmp_path, **ALLOWED)) as (made, _), Measurer(WORKLOAD, runner=made, hook=fault("wrong_number")) as m:
        trials = m.measure(candidates(WORKLOAD, 1, BAD, 3))
        assert [t.status for t in trials] == [Status.OK, Status.WRONG_ANSWER, Status.OK]
        assert "C: 1 of 512 elements are wrong, the worst at [3, 5]" in trials[1].cause
        (node,) = made.nodes()
        assert node.target == native().key and node.version == ts.__version__ and node.trials == 3 and node.calibration
    for _ in range(600):  # its workers see that it is gone, and tidy up
        if not list(tmp_path.iterdir()):
            break
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


def test_candidates_of_a_node_that_dies_are_handed_out_again(tmp_path: Path) -> None:
    command = elsewhere(tmp_path, TEST_MARK=str(tmp_path / "mark"), **ALLOWED)
    with runner(command) as (made, said), Measurer(WORKLOAD, runner=made, hook=fault("kills_the_node_once")) as m:
        trials = m.measure(candidates(WORKLOAD, 1, 2, BAD, 4))
        assert unrolls(trials) == [1, 2, BAD, 4] and all(t.ok for t in trials) and m.times.trials == 4
    assert [text for text in said if "is lost: the node ended with SIGKILL; its 4 candidates are handed out again" in text]


def test_a_node_that_hangs_is_ended_and_called_again(tmp_path: Path) -> None:
    command = elsewhere(tmp_path, TEST_MARK=str(tmp_path / "mark"), **ALLOWED)
    hook, rules = fault("stops_the_node_once"), Rules(silence=6.0, first=600.0)
    with runner(command, rules=rules) as (made, said), Measurer(WORKLOAD, runner=made, hook=hook) as m:
        assert all(t.ok for t in m.measure(candidates(WORKLOAD, 1, BAD)))
    assert [text for text in said if "it hangs: it said nothing for 6 s" in text]


def test_what_a_login_prints_is_passed_over(tmp_path: Path) -> None:
    command = shlex.join(["sh", "-c", 'echo Welcome to the board; exec "$@"', "sh", *shlex.split(elsewhere(tmp_path))])
    with runner(command) as (made, _), Measurer(WORKLOAD, runner=made) as m:
        assert m.measure(candidates(WORKLOAD, 1))[0].ok


# -- one clear line each -----------------------------------------------------------------------------------------------------


def test_a_host_that_cannot_be_reached() -> None:
    words = "ssh: connect to host board port 22: Connection refused"
    command = shlex.join(["sh", "-c", f"echo {words!r} >&2; exit 255"])
    assert trouble(command) == f"no node answered, the command ended with exit status 255: {words}"


def test_a_host_without_the_package(tmp_path: Path) -> None:
    bare = script(tmp_path / "python-bare", f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    assert trouble(bare) == f"there is no tensorsmith on the other side; install it there: {install(version=ts.__version__)}"


def test_another_version(tmp_path: Path) -> None:
    old = script(
        tmp_path / "python-old",
        f"#!{sys.executable}\nimport json, os, struct\nos.write(1, {MARK!r})\n"
        "body = json.dumps({'did': 'hello', 'version': '0.0.1', 'why_not': None}).encode()\n"
        "os.write(1, struct.pack('<I', len(body)) + body)\nos.read(0, 1 << 20)\nos.read(0, 1)\n",
    )
    here = ts.__version__
    assert trouble(old) == f"it has tensorsmith 0.0.1 and this is {here}; install the same there: {install(version=here)}"


def test_another_architecture(tmp_path: Path) -> None:
    other = "cortex-a53" if not native().key.startswith("aarch64") else "znver4"
    said = trouble(elsewhere(tmp_path), ts.Target.named(other))
    assert said.startswith(f"it cannot run programs for {ts.Target.named(other).key}: what was compiled for {other} (")


def test_too_few_cores(tmp_path: Path) -> None:
    many = native().cores + 1
    said = trouble(elsewhere(tmp_path), native().with_facts(cores=many))
    assert said.endswith(f"what is for {many} cores, this machine has {native().cores}")


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (0, "cannot make a folder for measurements: [Errno 2] No usable temporary directory found in "),
        (1, "cannot store the reference for measurements at "),
    ],
)
def test_a_full_disk(tmp_path: Path, blocks: int, message: str) -> None:
    python = shlex.split(elsewhere(tmp_path, PYTHONDONTWRITEBYTECODE="1"))  # it would be cut off, too
    limited = ["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", *python]
    said = trouble(shlex.join(limited))
    assert said.startswith(message) and str(tmp_path) in said and said.endswith("set TMPDIR")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shh board", "runner 'shh board': there is no command 'shh' here; give local, ray, or a command such as \"ssh board\""),
        ("", "runner '': it is empty"),
        ("ssh 'board", 'runner "ssh \'board" is no command: No closing quotation'),
        (["env a", "env a"], "runner 'env a' is given twice"),
        (3, "runner is 3, which has no submit, no collect"),
        ("no_such_module:Name", "runner 'no_such_module:Name': no_such_module cannot be imported"),
    ],
)
def test_what_is_no_runner(given: object, message: str) -> None:
    with pytest.raises(UserError) as raised:
        as_place(given)  # type: ignore[arg-type]
    assert str(raised.value).startswith(message)


def test_the_interpreter_is_python3_unless_the_command_names_one() -> None:
    module = ["-m", "tensorsmith.measure.fleet.node"]
    assert whole_command(["ssh", "board"]) == ["ssh", "board", "python3", *module]
    assert whole_command(["ssh", "board", "venv/bin/python3.11"]) == ["ssh", "board", "venv/bin/python3.11", *module]
    assert whole_command(["./py-arm"]) == ["./py-arm", *module]


def test_a_target_elsewhere_needs_a_runner_there() -> None:
    other = "cortex-a53" if not native().key.startswith("aarch64") else "znver4"
    with pytest.raises(UserError, match='To measure on such a machine give runner, as in "ssh board"'):
        Measurer(WORKLOAD, ts.Target.named(other))


def test_tune_takes_the_target_of_the_machine_there(tmp_path: Path) -> None:
    """From the outside: the search runs here, the programs there, and the records are stored here."""
    database = tmp_path / "tune.db"
    seen = []
    kernel = ts.tune(
        WORKLOAD,
        trials=4,
        policy="random",
        runner=elsewhere(tmp_path, TENSORSMITH_NUM_THREADS="1"),
        database=database,
        on_progress=seen.append,
    )
    there = native().with_facts(cores=1)
    assert kernel.network.target.key == there.key and seen[-1].trials == 4
    with Store.open(database, read_only=True) as store:
        assert len({r.key for r in store.history(WORKLOAD, there, Timing("warm", 1)) if not r.run}) == 4
