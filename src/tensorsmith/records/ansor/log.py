"""A log of TVM's auto_scheduler: its lines read, their programs placed in our space, and what became of each.

    log = read("tasks.json")             plain, .xz or .gz
    log.counts()                         {"records": 1500, "valid": 1491, "placed": 1491, "failed": 9, "not_placed": {}, ...}
    for record in log.records:           in the order of the file
        record.workload, record.kind     our workload; "gpu" or "cpu"
        record.candidate                 a candidate of `record.workload`, or None
        record.reason                    why there is none
        record.status, record.seconds    "ok" and the mean of the times; else the cause, and None

Lines are data: nothing in them is executed or looked up as a path, and a line that is no record is counted by what is wrong with
it.
"""

from __future__ import annotations

import gzip
import json
import lzma
import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tensorsmith.backends import space_of
from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records.ansor import definitions
from tensorsmith.records.ansor.check import differing
from tensorsmith.records.ansor.definitions import Meaning
from tensorsmith.records.ansor.placing import Placed, place
from tensorsmith.records.ansor.state import State, Unfitting, Unplaced
from tensorsmith.records.ansor.steps import LARGEST, Malformed, Template, parse
from tensorsmith.records.ansor.target import kind_of, target_of
from tensorsmith.records.foreign import Foreign
from tensorsmith.space.population.population import Space
from tensorsmith.space.sketch.sketch import Candidate

_LONGEST_LINE = 1 << 22  # characters; a record takes some thousand
_MOST_BYTES = 1 << 34  # unpacked: more is no log

#: TVM's error codes
CAUSES = (
    "ok", "cannot be applied", "build failed", "build failed", "run failed", "wrong answer", "build timed out", "run timed out",
    "unknown",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """What a log's record belongs to: what is computed, and the machine as it is named there."""

    name: str  # of the function in the key
    arguments: str  # the key's other entries, as JSON
    target: str  # as TVM writes it
    limits: tuple[int, ...]  # TVM's `HardwareParams`
    kind: str  # "gpu" or "cpu"

    @property
    def key(self) -> str:
        """The workload key as it stands in the log."""
        return json.dumps([self.name, *json.loads(self.arguments)])


@dataclass(eq=False)
class Group:
    """Records of one task with one template."""

    task: Task
    template: Template
    numbers: list[tuple[int, ...]] = field(default_factory=list)
    workload: Workload | None = None
    epilogue: str = ""
    rules: str = ""  # of the set whose space has them
    placed: Placed | None = None
    reason: str | None = None


@dataclass(eq=False, slots=True)
class Record:
    """A line of a log."""

    line: int  # of the file, 1 the first
    group: Group
    row: int
    status: str
    costs: tuple[float, ...]  # seconds; nothing where it failed
    wall: float  # seconds of building and measuring
    time: int  # of Unix, at the end

    @property
    def task(self) -> Task:
        return self.group.task

    @property
    def workload(self) -> Workload | None:
        return self.group.workload

    @property
    def kind(self) -> str:
        """Of the device: "gpu" or "cpu"."""
        return self.group.task.kind

    @property
    def seconds(self) -> float | None:
        """The mean of its times; nothing where it failed. Of that machine and that code generator."""
        return sum(self.costs) / len(self.costs) if self.costs else None

    @property
    def pragma(self) -> int | None:
        """The largest `auto_unroll_max_step` of the program."""
        numbers = self.group.numbers[self.row]
        found = [numbers[s[3]] for s in self.group.template.steps if s[0] == "PR" and s[3] is not None]
        return max(found, default=None)

    @property
    def reason(self) -> str | None:
        """Why the program is no candidate of ours; nothing where it is one."""
        if self.group.placed is None:
            return self.group.reason
        return next((note for note, rows in self.group.placed.notes.items() if rows[self.row]), None)

    @property
    def candidate(self) -> Candidate | None:
        """The candidate of our space that has the program's loops; made anew at each call."""
        return self.group.placed.candidate(self.row) if self.group.placed is not None and self.reason is None else None

    @property
    def nearest(self) -> Candidate | None:
        """The same, or the candidate that differs in one step, which `reason` names."""
        return self.group.placed.candidate(self.row) if self.group.placed is not None else None


@dataclass(eq=False)
class Log:
    """What a file has."""

    path: str
    records: list[Record]
    groups: list[Group]
    faults: Counter[str]  # lines that are no records, by what is wrong with them

    def counts(self) -> dict[str, Any]:
        """How many records there are, how many ran, and how many of those that ran are candidates of ours; the others by reason."""
        valid = [r for r in self.records if r.status == "ok"]
        reasons = Counter(r.reason for r in valid)
        placed = reasons.pop(None, 0)
        one_step = sum(r.reason is not None and r.group.placed is not None for r in valid)
        return {
            "records": len(self.records),
            "valid": len(valid),
            "placed": placed,
            "failed": len(self.records) - len(valid),
            "not_placed": {str(k): v for k, v in reasons.most_common()},
            "but_for_one_step": one_step,
            "failures": dict(Counter(r.status for r in self.records if r.status != "ok").most_common()),
            "malformed": dict(self.faults.most_common()),
        }

    def lowered_otherwise(self) -> int:
        """How many placed programs have, lowered by us, other loops than their steps describe; see `check`."""
        found = 0
        for group in self.groups:
            if group.placed is not None:
                exact = ~np.any([*group.placed.notes.values(), np.zeros(len(group.numbers), bool)], axis=0)
                found += int((differing(group.placed) & exact).sum())
        return found


def foreign(log: Log) -> Iterator[Foreign]:
    """The programs of a log that are candidates of ours and ran, with what was measured, as a record file keeps them."""
    for r in log.records:
        candidate = r.candidate if r.status == "ok" else None
        if candidate is not None:
            yield Foreign(candidate, r.kind, r.task.target, "tvm", Path(log.path).name, r.line, r.status, r.costs, r.time)


def read(path: str | os.PathLike[str], rules: str | None = None) -> Log:
    """The records of a log, with their candidates. Lines that are no records are counted in `faults`.

    Programs are looked for in the space of the rules that are named, or in those of "default" and "ansor".
    """
    records: list[Record] = []
    groups: dict[tuple[Task, Template], Group] = {}
    faults: Counter[str] = Counter()
    reader = _Reader()
    with _opened(path) as stream:
        for number, line in _lines(stream, faults):
            try:
                task, template, numbers, status, costs, wall, time = reader.record(line)
            except Malformed as problem:
                faults[str(problem)] += 1
                continue
            group = groups.get((task, template))
            if group is None:
                group = groups[task, template] = Group(task, template)
            records.append(Record(number, group, len(group.numbers), status, costs, wall, time))
            group.numbers.append(numbers)
    hint = Path(path).name.lower()
    placing = _Placing(rules, hint)
    for group in groups.values():
        placing.place(group)
    return Log(os.fspath(path), records, list(groups.values()), faults)


def _opened(path: str | os.PathLike[str]) -> TextIO:
    """The text of a file, unpacked if its first bytes say that it is packed."""
    try:
        with open(path, "rb") as raw:
            start = raw.read(6)
        if start == b"\xfd7zXZ\x00":
            return lzma.open(path, "rt", encoding="utf-8", errors="replace")
        if start[:2] == b"\x1f\x8b":
            return gzip.open(path, "rt", encoding="utf-8", errors="replace")
        return open(path, encoding="utf-8", errors="replace")
    except OSError as problem:
        raise UserError(f"the log {os.fspath(path)} cannot be read: {problem.strerror or problem}") from problem


def _lines(stream: TextIO, faults: Counter[str]) -> Iterator[tuple[int, str]]:
    """The lines of a log with their numbers, without those that are empty or comments; what cannot be unpacked ends them."""
    number, total = 0, 0
    try:
        while line := stream.readline(_LONGEST_LINE):
            number += 1
            total += len(line)
            if total > _MOST_BYTES:
                faults["the file is larger than any log"] += 1
                return
            if len(line) == _LONGEST_LINE and not line.endswith("\n"):
                faults["the line is longer than a record"] += 1
                while line and not line.endswith("\n"):
                    line = stream.readline(_LONGEST_LINE)
                continue
            if line.strip() and line[0] not in "# ":  # as TVM's reader
                yield number, line
    except (OSError, EOFError, lzma.LZMAError, ValueError):
        faults["the file is damaged from here on"] += 1


class _Reader:
    """Turns lines into tasks, templates and numbers; remembers the tasks that it has seen."""

    def __init__(self) -> None:
        self.tasks: dict[tuple[str, str, tuple[int, ...]], Task] = {}
        self.templates: dict[Template, Template] = {}

    def record(self, line: str) -> tuple[Task, Template, tuple[int, ...], str, tuple[float, ...], float, int]:
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            raise Malformed("the line is not JSON") from None
        if not isinstance(data, dict) or "i" not in data or "r" not in data:
            raise Malformed("the line is no record of auto_scheduler" + (": it is AutoTVM's" if _is_autotvm(data) else ""))
        given = data["i"]
        if not isinstance(given, list) or len(given) != 2 or not isinstance(given[0], list) or not isinstance(given[1], list):
            raise Malformed("a record without a task and a state")
        task = self._task(given[0])
        if len(given[1]) != 2 or given[1][0] != []:
            raise Malformed("a state that is no list of steps")
        template, numbers = parse(given[1][1])
        template = self.templates.setdefault(template, template)
        return (task, template, numbers, *_result(data["r"]))

    def _task(self, given: list[Any]) -> Task:
        if len(given) < 2 or not isinstance(given[0], str) or not isinstance(given[1], str):
            raise Malformed("a task without a workload and a target")
        limits = given[2] if len(given) > 2 and given[2] is not None else []
        if not isinstance(limits, list) or len(limits) > 16 or not all(type(n) is int and abs(n) < LARGEST for n in limits):
            raise Malformed("a task with other limits than numbers")
        key = (given[0], given[1], tuple(limits))
        if key not in self.tasks:
            self.tasks[key] = _task_of(*key)
        return self.tasks[key]


def _task_of(key: str, target: str, limits: tuple[int, ...]) -> Task:
    try:
        parts = json.loads(key)
    except (ValueError, RecursionError):
        raise Malformed("a workload key that is not JSON") from None
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], str) or len(key) > 1 << 16:
        raise Malformed("a workload key that does not begin with a name")
    kind = kind_of(target)
    return Task(parts[0], json.dumps(parts[1:]), target, limits, kind)


def _is_autotvm(data: object) -> bool:
    return isinstance(data, dict) and ("config" in data or "input" in data)


def _result(given: object) -> tuple[str, tuple[float, ...], float, int]:
    if not isinstance(given, list) or len(given) != 4 or type(given[1]) is not int or not isinstance(given[0], list):
        raise Malformed("a record without a result")
    costs, code, wall, time = given
    if not all(type(c) in (int, float) for c in (*costs, wall)) or type(time) is not int:
        raise Malformed("a result with other times than numbers")
    if code == 0:
        if not costs or not all(math.isfinite(c) and 0 < c < 1e9 for c in costs):
            raise Malformed("a result with impossible times")
        return "ok", tuple(map(float, costs)), float(wall), time
    return (CAUSES[code] if 0 < code < len(CAUSES) else "unknown"), (), float(wall), time


class _Placing:
    """Places groups, with the spaces of workloads made once."""

    def __init__(self, rules: str | None, hint: str) -> None:
        self.rules = rules
        self.hint = hint
        self.spaces: dict[tuple[Workload, str, object], Space] = {}

    def place(self, group: Group) -> None:
        if group.task.kind not in ("gpu", "cpu"):
            group.reason = "a target of another kind"
            return
        try:
            found = self._meanings(group.task)
        except definitions.Unknown as problem:
            group.reason = str(problem.args[0])
            return
        numbers = np.array(group.numbers, np.int64).reshape(len(group.numbers), group.template.numbers)
        for meaning in found:
            try:
                workload = meaning.workload()
            except definitions.Unknown as problem:
                group.reason = group.reason or str(problem.args[0])
                continue
            try:
                State(workload, numbers[:1]).replay(group.template)
            except Unfitting as problem:
                group.reason = str(problem.args[0])
                continue
            except Unplaced as problem:
                group.workload, group.epilogue, group.reason = workload, meaning.epilogue, str(problem.args[0])
                return
            group.workload, group.epilogue = workload, meaning.epilogue
            self._place(group, workload, numbers)
            return

    def _place(self, group: Group, workload: Workload, numbers: Any) -> None:
        worst: Placed | None = None
        usual = ("default", "ansor") if group.task.kind == "gpu" else ("ansor", "default")  # the likelier first
        for rules in usual if self.rules is None else (self.rules,):
            try:
                state = State(workload, numbers).replay(group.template)
                placed = place(state, self._space(group.task, workload, rules))
            except Unplaced as problem:
                group.reason = str(problem.args[0])
                continue
            if not placed.notes:
                group.placed, group.rules, group.reason = placed, rules, None
                return
            if worst is None:
                worst, group.rules = placed, rules
        group.placed = worst
        if worst is not None:
            group.reason = None

    def _meanings(self, task: Task) -> list[Meaning]:
        """What a key may stand for; with what the file is named for first."""
        found = definitions.meanings(task.name, task.arguments)
        return sorted(found, key=lambda one: not one.epilogue or not all(word in self.hint for word in one.epilogue.split()))

    def _space(self, task: Task, workload: Workload, rules: str) -> Space:
        key = (workload, rules, (task.kind, task.limits))
        if key not in self.spaces:
            self.spaces[key] = space_of(workload, target_of(task.target, task.limits), rules)
        return self.spaces[key]
