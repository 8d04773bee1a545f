"""One workload on a bench: builds its candidates, checks their answers, times them. Runs inside a worker process.

A workload that is another formulation of an original is checked against the original: the inputs and constants are those of the
original, and the constants are transformed as for whoever binds them.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.build import build
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.calls import Calls, of_a_caller
from tensorsmith.measure.check import Reference
from tensorsmith.measure.conditions import Condition, one_call
from tensorsmith.measure.streaming import streamed
from tensorsmith.measure.timing import Plan, Rounds, time_rounds
from tensorsmith.rewrites.formulations import Formulation, as_written
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.running import POISON, Prepared
from tensorsmith.search.trial import Cache
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import Target

Array = np.ndarray[Any, np.dtype[Any]]
Hook = Callable[[str, Candidate, Any], None]
Clock = Callable[[int], float]  # (runs) -> seconds of one
Answer = Callable[[], Prepared | Calls]  # whose outputs are the answer

_MOST_SETS = 32  # of arrays for cold runs


@dataclass
class Held:
    """A candidate's executable, with the constants bound, the arguments in place, and as its users call it."""

    candidate: Candidate
    executable: Executable  # constants not bound
    bound: Executable
    prepared: Prepared
    calls: Calls | None = None  # made when it is first called as users call
    checksum: int | None = None  # of the outputs that were found right


class Bench:
    """The inputs and the reference of a workload, and the executables built for it, by number."""

    def __init__(
        self,
        workload: Workload,
        target: Target,
        *,
        seed: int,
        threads: int,
        reference: Mapping[str, Array] | None,
        cache: Cache = "warm",
        hook: Hook | None = None,
        formulation: Formulation | None = None,
    ) -> None:
        """`reference`: the right outputs of the workload, or of the original that it is a `formulation` of; None: no checks."""
        self.workload, self.target, self.threads, self.cache = workload, target, threads, cache
        formulation = formulation or as_written(workload)
        inputs = {name: aligned_copy(array) for name, array in random_inputs(formulation.original, seed).items()}
        for name, transform in formulation.transforms.items():
            inputs[name] = aligned_copy(transform(inputs[name]))
        self.constants = {b.name: inputs[b.name] for b in workload.inputs if b.constant}
        self.inputs = {b.name: inputs[b.name] for b in workload.inputs if not b.constant}
        self.reference = None if reference is None else Reference(formulation.original, reference, formulation.slack)
        self._hook = hook
        self._built: dict[int, Held] = {}
        self._sketch = functools.lru_cache(maxsize=64)(self._new_sketch)  # most candidates share a few structures

    def build(self, number: int, sketch: str, decisions: Mapping[str, int]) -> None:
        """Build a candidate and put its arguments in place. Raises `Refusal`, or whatever the compiler does."""
        candidate = Candidate(self._sketch(sketch), {str(k): int(v) for k, v in decisions.items()})
        if self._hook:
            self._hook("build", candidate, None)
        executable = build(candidate, self.target)
        bound = self._bind(executable)
        self._built[number] = Held(candidate, executable, bound, self._prepare(bound))

    def check(self, number: int) -> str | None:
        """Run once and say what is wrong with the answer, None if nothing is."""
        if self.reference is None:
            return None
        built = self._built[number]
        built.prepared.poison()
        if self._hook:
            self._hook("run", built.candidate, None)
        built.prepared.repeat(1)
        if self._hook:
            self._hook("answer", built.candidate, built.prepared.outputs)
        built.checksum = _checksum(built.prepared)
        return self.reference.problem(built.prepared.outputs)

    def time(self, number: int, plan: Plan, condition: Condition = Condition.ALONE) -> tuple[Rounds, str | None]:
        """Time a built candidate; and what is wrong with its answer now, if it is another one than before.

        Conditions are for warm caches: what runs find otherwise is said by the cache.
        """
        built = self._built[number]
        if self._hook:
            self._hook("time", built.candidate, None)
        last: Answer
        if self.cache != "warm":
            seconds, last = self._clock(built)
            rounds = time_rounds(seconds, plan)
        elif condition is Condition.ALONE:
            rounds, last = time_rounds(built.prepared.seconds, plan), lambda: built.prepared
        else:
            calls = self._calls(built)
            rounds, last = one_call(calls, condition, self.target, plan), lambda: calls
        if self.reference is None:
            return rounds, None
        answer = last()
        unchanged = built.checksum == _checksum(answer)
        return rounds, None if unchanged else self.reference.problem(answer.outputs)

    def note(self, number: int) -> str:
        """How the device is just now, as it says."""
        return self._built[number].prepared.note()

    def drop(self, number: int) -> None:
        self._built.pop(number, None)

    def _new_sketch(self, text: str) -> Sketch:
        return Sketch.from_json(self.workload, json.loads(text))

    def _bind(self, executable: Executable) -> Executable:
        """With a copy of the constants of its own."""
        return executable.bind(**self.constants) if self.constants else executable

    def _prepare(self, bound: Executable, fresh: bool = False) -> Prepared:
        inputs = {name: aligned_copy(a) for name, a in self.inputs.items()} if fresh else self.inputs
        return bound.prepare(threads=self.threads, **inputs)

    def _calls(self, built: Held) -> Calls:
        if built.calls is None:
            built.calls = Calls(built.bound, self._callers_inputs, self.threads)
        return built.calls

    @functools.cached_property
    def _callers_inputs(self) -> dict[str, Array]:
        """The same arrays for all candidates."""
        return {name: of_a_caller(array) for name, array in self.inputs.items()}

    def _clock(self, built: Held) -> tuple[Clock, Answer]:
        """A clock of runs with the caches as they should be, and the answer of the last of them."""
        if self.cache == "cold":
            return self._cold_runs(built)
        return streamed(built.prepared, self.target), lambda: _once_more(built.prepared)

    def _cold_runs(self, built: Held) -> tuple[Clock, Answer]:
        """Runs that find nothing in the caches: over sets of arrays that are together twice as large as the last-level cache."""
        needed = 2 * max(self.target.core_cache_bytes * self.threads, self.target.shared_cache_bytes)
        each = array_bytes(self.workload)
        sets = [self._prepare(self._bind(built.executable), fresh=True) for _ in range(number_of_sets(each, needed))]
        rest = max(0, needed - each * len(sets))
        turns = itertools.cycle(range(len(sets)))
        last = 0

        def seconds(count: int) -> float:
            nonlocal last
            total = 0.0
            for _ in range(count):
                last = next(turns)
                if last == 0 and rest:
                    sets[last].sweep(rest)
                total += sets[last].seconds(1)
            return total / count

        return seconds, lambda: sets[last]


def _once_more(prepared: Prepared) -> Prepared:
    """After runs with other constants: its own answer, on scratch memory as those runs left it."""
    for output in prepared.outputs:
        output.reshape(-1).view(np.uint8).fill(POISON)
    prepared.repeat(1)
    return prepared


def array_bytes(workload: Workload) -> int:
    """Bytes of all inputs and outputs."""
    return sum(b.bytes for b in workload.inputs) + sum(workload.buffers[n].bytes for n in workload.outputs)


def number_of_sets(each: int, needed: int) -> int:
    return min(_MOST_SETS, max(2, math.ceil(needed / max(1, each))))


def _checksum(answer: Prepared | Calls) -> int:
    value = 0
    for output in answer.outputs:
        value = zlib.crc32(output.reshape(-1).view(np.uint8).data, value)
    return value
