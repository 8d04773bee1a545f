"""Logs of TVM's auto_scheduler as searches: what was measured, and what our features and prior say of the same programs.

A folder has files named `DEVICE.KIND.jsonl`, packed or not; its `index.json`, if it is there, says how many records of each task
come from which source log, in their order. A search is one task of one source log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.prior import estimated_seconds
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import UserError
from tensorsmith.records import read_ansor
from tensorsmith.records.ansor import Record

Array = np.ndarray[Any, np.dtype[Any]]

#: names of files that stand for another board than the target of that name; what the files' README says of them
BOARDS = {"v100": "v100-pcie", "rtx3080": "rtx3080-12gb", "sm75": "t4"}
LINE_SEARCH = "droplet"  # in the names of source logs that search around the best of another


@dataclass
class Search:
    """Programs of one task, in the order in which one source log measured them."""

    device: str
    kind: str
    task: str
    source: str
    seconds: Array
    expected: Array  # by the prior, seconds
    rows: list[Array]  # features of each program's kernels
    order: Array  # places in the source log, from 0

    @property
    def name(self) -> str:
        return f"{self.device} {self.kind} {self.task} {self.source}"

    @property
    def at_random(self) -> bool:
        """Whether its first programs were drawn at random."""
        return LINE_SEARCH not in self.source

    def where(self, chosen: Array) -> Search:
        rows = [row for row, take in zip(self.rows, chosen) if take]
        some = (self.seconds[chosen], self.expected[chosen], rows, self.order[chosen])
        return Search(self.device, self.kind, self.task, self.source, *some)

    def first(self, count: int) -> Search:
        return self.where(self.order < count)


@dataclass
class Found:
    """What a folder has."""

    searches: list[Search] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # by device, kind and reason


def target_of(device: str) -> GpuTarget | None:
    """The GPU that a file is named after; None: a machine of another kind."""
    name = BOARDS.get(device, device)
    if name in NAMED:
        return NAMED[name]
    return None


def read(folder: str | Path, only: str = "") -> Found:
    """The searches of all files on GPUs, or of those whose names begin with `only`."""
    paths = sorted(p for p in Path(folder).glob("*.jsonl*") if p.name.startswith(only))
    if not paths:
        raise UserError(f"{folder} has no file DEVICE.KIND.jsonl" + (f" that begins with {only!r}" if only else ""))
    index = Path(folder) / "index.json"
    sources = json.loads(index.read_text()) if index.exists() else {}
    found = Found()
    for path in paths:
        device, kind = path.name.split(".")[:2]
        target = target_of(device)
        if target is None:
            found.left_out[f"{device}.{kind}: no GPU of that name"] += 1
            continue
        parts = {json.dumps(json.loads(e["key"])): e["sources"] for e in sources.get(path.name, [])}
        found.searches += _searches(path, device, kind, target, parts, found.left_out)
    return found


def _searches(
    path: Path, device: str, kind: str, target: GpuTarget, parts: Mapping[str, Mapping[str, int]], left_out: Counter[str]
) -> Iterator[Search]:
    log = read_ansor(path)
    described = _described(log.records, target)
    tasks: dict[str, list[Record]] = {}
    for record in log.records:
        tasks.setdefault(record.task.key, []).append(record)
    for task, records in tasks.items():
        begin = 0
        for source, count in parts.get(task, {"": len(records)}).items():
            mine = [(n, r) for n, r in enumerate(records[begin : begin + count])]
            begin += count
            for _, r in mine:
                if r.status != "ok":
                    left_out[f"{device}.{kind}: failed, {r.status}"] += 1
                elif id(r) not in described:
                    left_out[f"{device}.{kind}: not placed, {r.reason}"] += 1
            ran = [(n, r) for n, r in mine if r.status == "ok" and id(r) in described]
            if ran:
                seconds = np.array([r.seconds for _, r in ran])
                expected = np.array([described[id(r)][0] for _, r in ran])
                rows = [described[id(r)][1] for _, r in ran]
                yield Search(device, kind, task, source, seconds, expected, rows, np.array([n for n, _ in ran]))


def _described(records: list[Record], target: GpuTarget) -> dict[int, tuple[float, Array]]:
    """What the prior and the features say of each placed program, by its record."""
    groups: dict[int, list[Record]] = {}
    for r in records:
        if r.status == "ok" and r.group.placed is not None and r.reason is None:
            groups.setdefault(id(r.group), []).append(r)
    found = {}
    for members in groups.values():
        placed = members[0].group.placed
        assert placed is not None
        at = np.array([r.row for r in members])
        decisions = {name: np.broadcast_to(values, len(members[0].group.numbers))[at] for name, values in placed.decisions.items()}
        pragmas = np.array([r.pragma or 0 for r in members])
        rows = extract_rows([(placed.sketch, decisions)], target, [pragmas])
        seconds = estimated_seconds(rows, target)
        (matrix,) = rows.matrices()
        for n, r in enumerate(members):
            found[id(r)] = (float(seconds[n]), matrix.values[n])
    return found
