"""What a node may answer. A node may be broken, of another version, or somebody else's: whatever comes from it is read here,
field by field, into one of these records, and nobody else looks at the message.

    live, setup, forget   `Sign`: it is there
    hello                 `Hello`: what it is
    cannot                `Cannot`, and why
    measure, compare      `Measured`: results by the number of their job

A message that is none of these is `Malformed`: its node is ended, like one that hangs. Where only a result is malformed, that is a
failed trial, whose cause says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import tensorsmith
from tensorsmith.measure.conditions import Condition, deciding
from tensorsmith.measure.fleet.fields import Fields, Malformed
from tensorsmith.measure.job import Rounds
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate

_SHORTEST, _LONGEST = 1e-12, 1e9  # seconds of a run
_MOST_RESULTS = 1 << 12  # in one answer
_MOST_ROUNDS = 1 << 12  # under one condition: finals compare all pairs of them
_MOST_SAID = 20  # warnings in one answer
_NUMBERS = 1 << 62  # of leases and jobs


@dataclass(frozen=True)
class Answer:
    """What every answer may bring: warnings, and how the machine is now; None: it does not say."""

    said: tuple[str, ...] = ()
    load: float | None = None
    celsius: float | None = None


@dataclass(frozen=True)
class Sign(Answer):
    """A sign of life."""


@dataclass(frozen=True)
class Cannot(Answer):
    """It cannot do what it was told."""

    why: str = ""


@dataclass(frozen=True)
class Hello(Answer):
    """What a node is. Of one with another version of the package that is all that is known."""

    version: str = ""
    key: str = ""  # of its own target
    machine: object = None  # that target as JSON, not checked: `Target.from_json` does so
    emulated: str = ""
    cores: int = 1
    why_not: str | None = None  # it cannot run programs for the target that it was asked about

    @property
    def same_version(self) -> bool:
        return self.version == tensorsmith.__version__


@dataclass(frozen=True)
class Result:
    """Of one candidate."""

    status: Status
    seconds: float | None = None
    spread: float = 0.0
    at_least: bool = False
    cause: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    note: str = ""
    cut: bool = False
    rounds: Rounds = field(default_factory=lambda: {condition: [] for condition in Condition})

    def trial(self, candidate: Candidate, emulated: bool) -> Trial:
        return Trial(
            candidate,
            self.status,
            self.seconds,
            self.spread,
            self.at_least,
            self.cause,
            self.build_seconds,
            self.run_seconds,
            emulated,
            self.note,
        )

    def of_contest(self, conditions: Sequence[Condition]) -> Result:
        """The same if it can be compared with others under some conditions: it failed, or has rounds that give its time, and
        rounds that decide."""
        for condition in (Condition.ALONE, deciding(conditions)[0]):
            if self.status is Status.OK and not self.rounds[condition]:
                return _failed(f"the rounds {condition.value} are missing")
        return self


@dataclass(frozen=True)
class Measured(Answer):
    """A lease that was worked off."""

    lease: int = 0
    results: dict[int, Result] = field(default_factory=dict)  # by the numbers of their jobs
    calibration: float | None = None  # seconds of the calibration kernel


def read_answer(message: object) -> Answer:
    """The answer that a message is. Raises `Malformed` and nothing else, whatever the message."""
    fields = Fields(message, "the answer")
    did = fields.text("did")
    said, load, celsius = (
        fields.texts("said", _MOST_SAID),
        fields.optional("load", 0.0, 1e6),
        fields.optional("celsius", -300.0, 1e4),
    )
    if did in ("live", "setup", "forget"):
        return Sign(said, load, celsius)
    if did == "cannot":
        return Cannot(said, load, celsius, fields.text("why"))
    if did == "hello":
        return _hello(fields, Answer(said, load, celsius))
    if did in ("measure", "compare"):
        lease, calibration = fields.whole("lease", 0, _NUMBERS), fields.optional("calibration", _SHORTEST, _LONGEST)
        return Measured(said, load, celsius, lease, _results(fields), calibration)
    raise Malformed(f"it did {did[:40]!r}, which nobody knows")


def _hello(fields: Fields, common: Answer) -> Hello:
    version = fields.text("version")
    if version != tensorsmith.__version__:  # its other fields may have other meanings
        return Hello(version=version)
    return Hello(
        *(common.said, common.load, common.celsius),
        version=version,
        key=fields.text("key", ""),
        machine=fields.value("machine"),
        emulated=fields.text("emulated", ""),
        cores=fields.whole("cores", 1, 1 << 20) if fields.has("cores") else 1,
        why_not=fields.text("why_not") if fields.has("why_not") else None,
    )


def _results(fields: Fields) -> dict[int, Result]:
    found: dict[int, Result] = {}
    for one in fields.objects("trials", _MOST_RESULTS):
        number = one.whole("id", 0, _NUMBERS)
        if number in found:
            raise Malformed(f"two results have the id {number}")
        try:
            found[number] = _result(one)
        except Malformed as problem:
            found[number] = _failed(str(problem))
    return found


def _result(fields: Fields) -> Result:
    word = fields.text("status")
    if word not in {status.value for status in Status}:
        raise Malformed(f"there is no status {word[:40]!r}")
    status, inner = Status(word), fields.inner("rounds")
    seconds = fields.optional("seconds", _SHORTEST, _LONGEST)
    if (seconds is None) is (status is Status.OK):
        raise Malformed(f"a result that is {word!r} has {'no' if seconds is None else 'a'} time")
    return Result(
        status,
        seconds,
        fields.number("spread", 0.0, 1e9, 0.0),
        fields.flag("at_least", False),
        fields.text("cause", ""),
        fields.number("build_seconds", 0.0, _LONGEST, 0.0),
        fields.number("run_seconds", 0.0, _LONGEST, 0.0),
        fields.text("note", ""),
        fields.flag("cut", False),
        {condition: inner.numbers(condition.value, _SHORTEST, _LONGEST, _MOST_ROUNDS) for condition in Condition},
    )


def _failed(why: str) -> Result:
    return Result(Status.CRASHED, cause=f"what its node answered is malformed: {why}")
