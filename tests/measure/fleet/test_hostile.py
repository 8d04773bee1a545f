"""Whatever a node answers, the tuner goes on, and nothing is executed."""

from __future__ import annotations

import json
import math
import pickle
import random
import shlex
import struct
import sys
import warnings
from pathlib import Path

import pytest
from tests.measure.fleet.hostile import VALUES, Bomb, Garbling, garble
from tests.measure.fleet.other_machine import script
from tests.measure.fleet.simulation import CANDIDATE, WORKLOAD

import tensorsmith as ts
from tensorsmith.errors import InternalError, UserError
from tensorsmith.measure import wire
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.fleet.answers import Hello, Measured, Sign, read_answer
from tensorsmith.measure.fleet.by_ray import message_of
from tensorsmith.measure.fleet.command import Commands
from tensorsmith.measure.fleet.fields import Malformed
from tensorsmith.measure.fleet.greeting import greet, own_target
from tensorsmith.measure.fleet.node import MARK
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.fleet.transport import Event
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.places import Place
from tensorsmith.search.trial import Status
from tensorsmith.targets.target import native
from tensorsmith.testing.simulated import Conditions

GOOD = {
    "id": 3,
    "status": "ok",
    "cut": False,
    "seconds": 1e-3,
    "rounds": {"back to back": [1e-3, 2e-3]},
    "spread": 0.5,
    "cause": "",
}
HELLO = {"did": "hello", "version": ts.__version__, "key": "k", "machine": {}, "emulated": "", "cores": 2, "why_not": None}


@pytest.fixture(autouse=True)
def nothing_is_executed():
    Bomb.touched.clear()
    yield
    assert Bomb.touched == []


def measured(**changes: object) -> Measured:
    answer = read_answer({"did": "measure", "lease": 1, "trials": [GOOD | changes], "calibration": 1e-5})
    assert isinstance(answer, Measured)
    return answer


def test_what_is_right_is_read() -> None:
    (result,) = measured().results.values()
    assert result.status is Status.OK and result.seconds == 1e-3
    assert result.rounds == {c: [1e-3, 2e-3] if c is Condition.BACK_TO_BACK else [] for c in Condition}
    assert read_answer({"did": "live"}) == Sign()
    assert read_answer(HELLO | {"load": 1, "said": ["a\nb\x1b[1m"]}) == Hello(
        ("a b?[1m",), 1.0, None, ts.__version__, "k", {}, "", 2, None
    )


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"seconds": math.nan}, "seconds of trials[0] is nan, and should be a number from 1e-12 to 1e+09"),
        ({"seconds": math.inf}, "seconds of trials[0] is inf, and should be a number from 1e-12 to 1e+09"),
        ({"seconds": 0.0}, "seconds of trials[0] is 0.0, and should be a number from 1e-12 to 1e+09"),
        ({"seconds": "1"}, "seconds of trials[0] is '1', and should be a number from 1e-12 to 1e+09"),
        ({"seconds": True}, "seconds of trials[0] is True, and should be a number from 1e-12 to 1e+09"),
        ({"seconds": 10**400}, "seconds of trials[0] is a int, and should be a number from 1e-12 to 1e+09"),
        ({"seconds": None}, "a result that is 'ok' has no time"),
        ({"status": "crashed"}, "a result that is 'crashed' has a time"),
        ({"status": "fine"}, "there is no status 'fine'"),
        ({"status": None}, "status of trials[0] is missing, and should be a text of 65536 characters at most"),
        ({"spread": -1}, "spread of trials[0] is -1, and should be a number from 0 to 1e+09"),
        ({"cut": 1}, "cut of trials[0] is 1, and should be true or false"),
        ({"cause": "x" * 70_000}, f"cause of trials[0] is '{'x' * 36}..., and should be a text of 65536 characters at most"),
        ({"rounds": []}, "rounds is a list, and should be an object"),
        (
            {"rounds": {"back to back": [0.1, math.nan]}},
            "back to back of rounds is a list, and should be a number from 1e-12 to 1e+09",
        ),
        (
            {"rounds": {"caches cold": [1.0] * 5000}},
            "caches cold of rounds is a list, and should be a list of 4096 numbers at most",
        ),
    ],
)
def test_a_malformed_result_is_a_failed_trial_with_a_cause(changes: dict[str, object], cause: str) -> None:
    (result,) = measured(**changes).results.values()
    assert result.trial(CANDIDATE, False).status is Status.CRASHED and result.seconds is None
    assert result.cause == f"what its node answered is malformed: {cause}"


def test_who_won_a_final_without_rounds_has_failed() -> None:
    """Its time comes from rounds alone, and rounds of the first condition of callers decide."""
    every, alone = tuple(Condition), (Condition.ALONE,)
    for rounds, conditions, fine in (
        (["alone", "back to back"], every, True),
        (["alone"], every, False),
        (["back to back"], every, False),
        (["after a pause"], every, False),
        (["alone"], alone, True),
        ([], alone, False),
    ):
        (result,) = measured(rounds={name: [1e-3] for name in rounds}).results.values()
        assert result.status is Status.OK and (result.of_contest(conditions).status is Status.OK) is fine, (rounds, conditions)


@pytest.mark.parametrize(
    "message",
    [
        *VALUES,
        {"did": "dance"},
        {"did": "measure", "lease": 1, "trials": [{**GOOD, "id": True}]},
        {"did": "measure", "lease": 1, "trials": [GOOD, GOOD]},
        {"did": "measure", "lease": 1, "trials": [GOOD] * 5000},
        {"did": "measure", "lease": 1.0, "trials": []},
        {"did": "measure", "lease": 1, "trials": [], "calibration": 0.0},
        {"did": "cannot"},
        {"did": "live", "load": math.nan},
        HELLO | {"cores": 0},
        HELLO | {"emulated": ["qemu"]},
    ],
    ids=lambda m: type(m).__name__,
)
def test_what_is_no_answer_is_malformed_and_nothing_else(message: object) -> None:
    with pytest.raises(Malformed) as raised:
        read_answer(message)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 300


def test_any_garbled_answer_is_read_or_malformed() -> None:
    draw = random.Random(0)
    whole = {"did": "compare", "lease": 1, "trials": [GOOD, GOOD | {"id": 4}], "calibration": 1e-5, "load": 1.0, "said": ["x"]}
    read = wrong = 0
    for _ in range(4000):
        try:
            answer = read_answer(garble(draw.choice((whole, HELLO)), draw))
        except Malformed:
            wrong += 1
            continue
        read += 1
        for result in getattr(answer, "results", {}).values():
            trial = result.trial(CANDIDATE, False)
            assert trial.ok == (trial.seconds is not None) and (trial.ok or trial.cause)
            assert all(0 < t < math.inf for times in result.rounds.values() for t in times)
    assert read > 500 and wrong > 500


# -- a run -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 13))
def test_a_run_with_hostile_nodes_ends_with_all_results(seed: int) -> None:
    """One node of four is well: what the others say is a result, a failure with a cause, or the end of them."""
    fleet = Garbling(Conditions(4, seed), native(), (0.2, 0.5, 1.0)[seed % 3])
    with FleetRunner("hostile", fleet, native(), warn=lambda text: None, clock=fleet.clock) as runner:
        trials = Measurer(WORKLOAD, runner=runner, check=False).measure([CANDIDATE] * 120)
        assert len(trials) == 120 and fleet.garbled > 0
        assert all(0 < t.seconds < math.inf if t.ok else "malformed" in t.cause for t in trials)
        assert any(t.ok for t in trials)
        for node in runner.nodes():
            assert all(c.isprintable() for c in f"{node.why}{node.target}{node.version}{node.emulated}")


@pytest.mark.parametrize("seed", range(3))
def test_nodes_that_are_all_hostile_are_given_up(seed: int) -> None:
    fleet = Garbling(Conditions(2, seed), native(), 1.0, well=frozenset())
    with FleetRunner("hostile", fleet, native(), warn=lambda text: None, clock=fleet.clock) as runner:
        measurer = Measurer(WORKLOAD, runner=runner, check=False)
        with pytest.raises(UserError, match="no node of runner 'hostile' is left: node-0: "):
            measurer.measure([CANDIDATE] * 400)


@pytest.mark.parametrize("seed", range(3))
def test_a_tuning_with_its_final_on_hostile_nodes(seed: int) -> None:
    made: list[Garbling] = []

    def make(target: ts.Target, warn) -> FleetRunner:
        made.append(Garbling(Conditions(3, seed), target, 0.4))
        return FleetRunner("hostile", made[-1], target, warn=lambda text: None, clock=made[-1].clock)

    seen: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trials that failed
        ts.tune(WORKLOAD, trials=24, policy="random", runner=Place("hostile", make), on_progress=lambda p: seen.append(p.trials))
    assert seen[-1] == 24 and made[0].garbled > 0


class Parrot:
    """A transport to one node that says the same to whatever it is told, as often as it is listened to."""

    silent_because = ""
    processes = ()

    def __init__(self, *messages: object) -> None:
        self.messages, self.now, self.ended = messages, 0.0, 0

    def find(self) -> list[str]:
        return ["parrot"]

    def call(self, node: str) -> None: ...

    def send(self, node: str, message: dict) -> None: ...

    def end(self, node: str) -> None:
        self.ended += 1

    def poll(self, seconds: float) -> list:
        self.now += 1.0
        return [Event("parrot", message) for message in self.messages]  # type: ignore[arg-type]

    def close(self) -> None: ...


def hello(**facts: object) -> dict[str, object]:
    return HELLO | {"machine": native().to_json(), "key": native().key} | facts


def test_a_node_that_leaves_results_out_is_given_up() -> None:
    """It is not asked again and again."""
    parrot = Parrot(hello(), *({"did": "measure", "lease": n, "trials": [], "calibration": 1e-5} for n in range(1, 40)))
    with (
        FleetRunner("parrot", parrot, native(), warn=lambda text: None, clock=lambda: parrot.now) as runner,
        pytest.raises(UserError, match="what it answered is malformed: 1 of 1 results are missing"),
    ):
        Measurer(WORKLOAD, runner=runner, check=False).measure([CANDIDATE])
    assert parrot.ended == 5


@pytest.mark.parametrize("value", [v for v in VALUES if v is not None], ids=lambda v: type(v).__name__)
def test_asking_a_hostile_node_who_it_is(value: object) -> None:
    (said,) = greet(Parrot(value), clock=iter(range(1000)).__next__).values()
    assert isinstance(said, str) and said.startswith("what it answered is malformed: ")
    with pytest.raises(UserError, match="runner 'parrot': what it answered is malformed: "):
        own_target("parrot", Parrot(hello(machine=value)))


@pytest.mark.parametrize("name", sorted(native().to_json().keys() - {"version"}))
def test_a_target_with_facts_of_other_types(name: str) -> None:
    for value in ([], {}, Bomb(), b"x"):
        with pytest.raises(UserError, match="runner 'parrot': "):
            own_target("parrot", Parrot(hello(machine=native().to_json() | {name: value})))


# -- bytes -------------------------------------------------------------------------------------------------------------------------

NESTED = b'{"a":' + b"[" * 200_000
FRAMES = {
    "garbage": b"\x05\x00\x00\x00hello",
    "too long": struct.pack("<I", (16 << 20) + 1) + b"{" * 1000,
    "nested": struct.pack("<I", len(NESTED)) + NESTED,
    "pickle": struct.pack("<I", 4) + b"\x80\x04N.",
    "no object": struct.pack("<I", 2) + b"[]",
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_command_that_sends_no_messages_is_a_node_that_is_lost(tmp_path: Path, name: str) -> None:
    node = script(
        tmp_path / "python-hostile",
        f"#!{sys.executable}\nimport os\nfile = open({str(tmp_path / 'frames')!r}, 'rb').read()\n"
        "while file:\n    file = file[os.write(1, file) :]\nos.read(0, 1 << 20)\nos.read(0, 1)\n",
    )
    (tmp_path / "frames").write_bytes(MARK + FRAMES[name])
    nodes, events = Commands({"node": shlex.split(node)}), []
    nodes.call("node")
    while not events:
        events = nodes.poll(60.0)
    nodes.close()
    assert [event.message for event in events] == [None]


def test_random_bytes_are_messages_or_garbage() -> None:
    draw, garbage = random.Random(0), 0
    for _ in range(2000):
        data = bytearray(wire.encode({"did": "measure", "lease": 1, "trials": [GOOD]}))
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            wire.Decoder(16 << 20).feed(bytes(data))
        except InternalError:
            garbage += 1
    assert garbage > 1000


def test_a_command_that_prints_without_end_is_no_node() -> None:
    nodes, events = Commands({"node": ["sh", "-c", "head -c 100000 /dev/zero; exec cat", "sh"]}), []
    nodes.call("node")
    for _ in range(50):
        events = events or nodes.poll(1.0)
    nodes.close()
    (event,) = events
    assert event.message is None and event.for_good
    assert event.why == "no node answered, and the command printed more than 64 KiB of something else"


class Runs:
    """Pickled, it would be code."""

    def __reduce__(self):
        return Bomb._touch, ("unpickled",)


def test_what_comes_by_ray_is_json_in_bytes_and_nothing_else() -> None:
    assert message_of(json.dumps({"did": "live"}).encode()) == {"did": "live"}
    for answer in (pickle.dumps(Runs()), {"did": "live"}, None, "{}", b"[]", b"{" * 10, NESTED, b" " * ((16 << 20) + 1), Bomb()):
        with pytest.raises(InternalError):
            message_of(answer)
