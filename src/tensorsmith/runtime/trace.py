"""What each thread did when, in one run of an executable; written as a file that Perfetto opens.

The file is JSON in Chrome's trace format: complete events with times in microseconds, one track a thread. The track of the calling
thread has the steps, and inside of each its own part of the step's parallel regions; the tracks of the workers have theirs. What is
empty on a track is waiting.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.files import replacing
from tensorsmith.runtime.buffers import aligned_zeros, data_pointer
from tensorsmith.runtime.device import Loaded, device_of
from tensorsmith.runtime.profile import StepTime, titled
from tensorsmith.runtime.trace_ir import ENTRY, ENTRY_WORDS, LANE, NOTES, trace_ir
from tensorsmith.show.line import line, many, plain
from tensorsmith.show.units import time
from tensorsmith.targets.target import native


@dataclass(frozen=True)
class Span:
    """A thread's part of a step: its chunks of one parallel region, one after another. Times are nanoseconds of the run."""

    step: int
    thread: int  # 0 is the caller
    begin: int
    end: int
    items: int  # iterations of the region's loop
    chunks: int


@dataclass(frozen=True)
class Trace:
    """One run. `begins` and `ends` are those of the steps, in nanoseconds since the run began, by the machine's monotonic clock;
    `spans` is what the threads did inside of them."""

    name: str
    threads: int
    steps: tuple[StepTime, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        """From the beginning of the first step to the end of the last."""
        return (self.ends[-1] - self.begins[0]) * 1e-9 if self.ends else 0.0

    def busy(self, thread: int) -> float:
        """Seconds that a thread worked in parallel regions."""
        return sum(s.end - s.begin for s in self.spans if s.thread == thread) * 1e-9

    def events(self) -> list[dict[str, Any]]:
        """The events of Chrome's format."""
        process = os.getpid()
        found: list[dict[str, Any]] = [_meta("process_name", process, 0, name=plain(self.name))]
        for thread in range(self.threads):
            found.append(_meta("thread_name", process, thread, name="caller" if thread == 0 else f"worker {thread}"))
            found.append(_meta("thread_sort_index", process, thread, sort_index=thread))
        for number, (step, begin, end) in enumerate(zip(self.steps, self.begins, self.ends)):
            found.append(_complete(_title(step), "step", process, 0, begin, end, _facts(number, step)))
        for span in self.spans:
            facts = {"step": span.step, "items": span.items, "chunks": span.chunks}
            found.append(_complete(_title(self.steps[span.step]), "work", process, span.thread, span.begin, span.end, facts))
        return found

    def write(self, path: str | Path) -> None:
        """Writes the file."""
        text = json.dumps({"traceEvents": self.events(), "displayTimeUnit": "ns"})
        try:
            with replacing(Path(path)) as stream:
                stream.write(text.encode())
        except OSError as problem:
            raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem

    def __repr__(self) -> str:
        return line(self, self.name, f": {many(len(self.steps), 'step')} on {many(self.threads, 'thread')}, {time(self.seconds)}")


class Notes:
    """The memory that `trace_ir` writes to: stands in for a pool of so many threads."""

    def __init__(self, pool: int, parallel_for: int, threads: int, clock: int, room: int) -> None:
        self.threads, self.room = threads, room
        self._lane_bytes = LANE["ENTRIES"] + 8 * ENTRY_WORDS * room
        self._memory = aligned_zeros((NOTES["LANES"] + threads * self._lane_bytes,), "u1")
        self.address = data_pointer(self._memory)
        words = {"POOL": pool, "PARALLEL_FOR": parallel_for, "ROOM": room, "LANE_BYTES": self._lane_bytes}
        for name, value in words.items():
            ctypes.c_uint64.from_address(self.address + NOTES[name]).value = value
        ctypes.c_int32.from_address(self.address + NOTES["CLOCK"]).value = clock

    def counts(self) -> list[int]:
        """How many entries each thread would have noted, if there had been room for all."""
        return [int(self._lane(thread)[0]) for thread in range(self.threads)]

    def entries(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Of every thread in the order it noted them: thread, begin and end in nanoseconds, items, chunks."""
        for thread, count in enumerate(self.counts()):
            table = self._lane(thread)[LANE["ENTRIES"] // 8 :].reshape(self.room, ENTRY_WORDS)
            for entry in table[: min(count, self.room)].tolist():
                begin, end = (entry[ENTRY[at]] * 1_000_000_000 + entry[ENTRY[at] + 1] for at in ("BEGIN", "END"))
                yield thread, begin, end, entry[ENTRY["ITEMS"]], entry[ENTRY["CHUNKS"]]

    def _lane(self, thread: int) -> np.ndarray:
        at = NOTES["LANES"] + thread * self._lane_bytes
        return self._memory[at : at + self._lane_bytes].view(np.int64)


@functools.cache
def parallel_for() -> int:
    """The address of `traced_parallel_for`, whose code stays as long as the process. It needs the compiler."""
    device = device_of("cpu")
    assert device.driver is not None
    _code.append(device.link(device.driver.assemble(trace_ir(), native())))
    return _code[0].address("traced_parallel_for")


_code: list[Loaded] = []


def traced(name: str, threads: int, steps: tuple[StepTime, ...], stamps: np.ndarray, notes: Notes) -> Trace:
    """The trace of a run: `stamps` are `timespec`s, before the first step and after each.

    A region belongs to the step in whose time it began: the caller ends a region before it goes on.
    """
    times = stamps[:, 0] * 1_000_000_000 + stamps[:, 1]
    times = times - times[0]
    zero = int(stamps[0, 0]) * 1_000_000_000 + int(stamps[0, 1])
    spans = []
    for thread, begin, end, items, chunks in notes.entries():
        step = int(np.searchsorted(times, begin - zero, side="right")) - 1
        spans.append(Span(min(max(step, 0), len(steps) - 1), thread, begin - zero, end - zero, items, chunks))
    return Trace(name, threads, steps, tuple(times[:-1].tolist()), tuple(times[1:].tolist()), tuple(spans))


def _title(step: StepTime) -> str:
    return plain(titled(step.name, step.result))


def _facts(number: int, step: StepTime) -> dict[str, Any]:
    facts: dict[str, Any] = {"step": number}
    if step.kernel is not None:
        facts |= {"kernel": step.kernel, "schedule": step.schedule, "flops": step.flops, "bytes": step.bytes}
        if step.flops and step.seconds:
            facts["GFLOP/s"] = round(step.flops / step.seconds / 1e9, 3)
    return facts


def _meta(what: str, process: int, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def _complete(name: str, kind: str, process: int, thread: int, begin: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": begin / 1000, "dur": (end - begin) / 1000}
    return {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": thread, **times, "args": args}
