"""A record: the stored result of a trial, and its JSON form. What comes from a file is validated before anyone uses it.

The JSON form stands by itself; it is what `export` writes, one to a line:

    {"format": 1, "uid": "9f...", "workload": {...}, "target": {...}, "timing": {"cache": "warm", "threads": 2}, "run": "",
     "created": 1.7e9, "candidate": {...}, "status": "ok", "seconds": 1.2e-4, "spread": 0.01, "at_least": false, "cause": "",
     "build_seconds": 0.02, "run_seconds": 0.1, "note": ""}
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import Timing, candidate_key, canonical_json
from tensorsmith.records.names import renamed_sketch
from tensorsmith.search.trial import Status, Trial
from tensorsmith.show.line import line
from tensorsmith.show.units import time
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import Target

FORMAT = 1
FINALISTS = "finalists"  # the `run` of trials that time known candidates once more; no part of a search
WINNER = "winner"  # the `run` of that one among them which is to be used
FINALS = (FINALISTS, WINNER)
_LONGEST_TEXT = 4000  # characters of a cause or a run's name that are kept
_MOST_KEPT = 4096  # workloads, targets or sketches a reader remembers
_LARGEST_DECISION = (1 << 31) - 1  # populations hold decisions in 32 bits

K = TypeVar("K")
T = TypeVar("T")


class Invalid(Exception):
    """A stored record cannot be used; the text is the reason under which it is counted."""


@dataclass(frozen=True)
class Record:
    """A stored trial. `created` is in seconds since 1970; `run` names the tuning run that made it."""

    trial: Trial
    target: Target
    timing: Timing
    run: str
    created: float
    uid: str

    @property
    def workload(self) -> Workload:
        return self.trial.candidate.sketch.workload

    @property
    def candidate(self) -> Candidate:
        return self.trial.candidate

    @property
    def seconds(self) -> float | None:
        return self.trial.seconds

    @property
    def key(self) -> str:
        """The candidate's key."""
        return candidate_key(self.trial.candidate)

    def __repr__(self) -> str:
        result = time(self.seconds) if self.trial.ok else self.trial.status.value
        return line(self, f"{result}: {self.workload.title} on {self.target.key}, {self.timing}", f", candidate {self.key[:8]}")

    def to_json(self) -> dict[str, Any]:
        t = self.trial
        return {
            "format": FORMAT,
            "uid": self.uid,
            "workload": self.workload.to_json(),
            "target": self.target.to_json(),
            "timing": dataclasses.asdict(self.timing),
            "run": clean(self.run),
            "created": number(self.created) or 0.0,
            "candidate": json.loads(canonical_json(t.candidate.to_json())),
            "status": t.status.value,
            "seconds": number(t.seconds) if t.ok else None,
            "spread": number(t.spread) or 0.0,
            "at_least": bool(t.at_least),
            "cause": clean(t.cause),
            "build_seconds": number(t.build_seconds) or 0.0,
            "run_seconds": number(t.run_seconds) or 0.0,
            "note": clean(t.note),
        }


def ranked(records: Iterable[Record]) -> list[Record]:
    """The one to use first: the fastest, but before all that was known when it won the winner of the last final.

    Seconds are those of the kernel alone, and a final asks for more (`tuning.finals`): who lost there may have less
    seconds. What was measured since then stands for its seconds. The same rule for one workload, in SQL, is in `queries`.
    """
    found = list(records)
    winner = max((r for r in found if r.run == WINNER), key=lambda r: r.created, default=None)

    def place(record: Record) -> tuple[float, bool, float]:
        seconds = record.seconds or math.inf
        if winner is None or record is winner or record.created > winner.created:
            return seconds, False, record.created
        return max(seconds, winner.seconds or 0.0), True, record.created

    return sorted(found, key=place)


class Reader:
    """Makes records of JSON forms. Raises `Invalid` and nothing else, whatever the data; remembers what many records share."""

    def __init__(self) -> None:
        self._workloads: dict[str, Workload] = {}
        self._targets: dict[str, Target] = {}
        self._sketches: dict[tuple[str, str, str], tuple[Sketch, Mapping[str, str] | None]] = {}

    def record(self, data: Any, workload: Workload | None = None, written: Workload | None = None) -> Record:
        """The record of a JSON form; with a workload, for that one, which is the same computation as the one `written` with it."""
        if not isinstance(data, dict):
            raise Invalid("not a JSON object")
        if data.get("format") != FORMAT:
            raise Invalid(f"record format {data.get('format')!r:.20} is not known; this version reads {FORMAT}")
        workload = workload or self.workload(data.get("workload"))
        timing = _guarded("timing", lambda: Timing(**_fields(data["timing"], Timing)))
        candidate = _guarded("candidate", lambda: self._candidate(data["candidate"], workload, written or workload))
        uid = data.get("uid")
        if not isinstance(uid, str) or not 0 < len(uid) <= 64 or not uid.isascii():
            raise Invalid("uid: not a short text")
        trial = _guarded("result", lambda: _trial(candidate, data))
        return Record(trial, self.target(data.get("target")), timing, _text(data, "run"), _number(data, "created"), uid)

    def workload(self, data: Any) -> Workload:
        return _remembered(self._workloads, "workload", data, Workload.from_json)

    def target(self, data: Any) -> Target:
        return _remembered(self._targets, "target", data, Target.from_json)

    def candidate(self, text: str, workload: Workload, written: Workload) -> Candidate:
        """The candidate of a JSON text for a workload, where the text is in the names of the one `written` with it."""
        return _guarded("candidate", lambda: self._candidate(json.loads(text), workload, written))

    def renamed(self, candidate: Candidate, workload: Workload) -> Candidate:
        """The candidate for a workload that is the same computation as its own."""
        return self.candidate(canonical_json(candidate.to_json()), workload, candidate.sketch.workload)

    def _candidate(self, data: Any, workload: Workload, written: Workload) -> Candidate:
        decisions = data["decisions"]
        for name, value in decisions.items():
            if isinstance(value, bool) or not isinstance(value, int) or value > _LARGEST_DECISION:
                raise UserError(f"decision {name} is {value!r:.40}")
        key = workload.key, written.key, canonical_json(data["sketch"])
        known = self._sketches.get(key)
        if known is None:
            sketch = Candidate.from_json(written, data).sketch
            known = (sketch, None) if written.key == workload.key else renamed_sketch(sketch, workload)
            _keep(self._sketches, key, known)
        sketch, holes = known
        return Candidate(sketch, dict(decisions) if holes is None else {holes[h]: value for h, value in decisions.items()})


def clean(text: str) -> str:
    """Text that any file can hold: no lone surrogates, not endless."""
    return str(text)[:_LONGEST_TEXT].encode("utf-8", "replace").decode()


def number(value: Any) -> float | None:
    """A finite float, or None."""
    if value is None:
        return None
    found = float(value)
    return found if math.isfinite(found) else None


def _trial(candidate: Candidate, data: dict[str, Any]) -> Trial:
    status = Status(data["status"])
    seconds = None if data.get("seconds") is None else _number(data, "seconds")
    if status is Status.OK and not (seconds is not None and seconds > 0):
        raise UserError("status ok without a time")
    if status is not Status.OK and seconds is not None:
        raise UserError("a time, but it failed")
    at_least = data.get("at_least", False)
    if not isinstance(at_least, bool):
        raise UserError("at_least is neither true nor false")
    spread, build, run = (_number(data, name) for name in ("spread", "build_seconds", "run_seconds"))
    return Trial(candidate, status, seconds, spread, at_least, _text(data, "cause"), build, run, note=_text(data, "note"))


def _number(data: dict[str, Any], name: str) -> float:
    value = data.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise Invalid(f"{name} is not a number")
    return float(value)


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name, "")
    if not isinstance(value, str):
        raise Invalid(f"{name} is not a text")
    return clean(value)


def _fields(data: Any, kind: type) -> dict[str, Any]:
    return {f.name: data[f.name] for f in dataclasses.fields(kind)}


def _guarded(what: str, make: Callable[[], T]) -> T:
    """Whatever a stranger's data makes go wrong is a reason to leave the record out, and nothing more."""
    try:
        return make()
    except Invalid:
        raise
    except Exception as problem:
        detail = str(problem) if isinstance(problem, UserError) else f"{type(problem).__name__}: {problem}"
        raise Invalid(clean(f"{what}: {detail}")[:200]) from problem


def _remembered(known: dict[str, T], what: str, data: Any, make: Callable[[Any], T]) -> T:
    key = _guarded(what, lambda: canonical_json(data))
    if key not in known:
        _keep(known, key, _guarded(what, lambda: make(data)))
    return known[key]


def _keep(known: dict[K, T], key: K, value: T) -> None:
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[key] = value
