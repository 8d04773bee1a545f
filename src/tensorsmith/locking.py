"""A lock: which programs an executable is made of, how long they took, and what they gave, in a file to keep beside the model.

`compile(model, lock=path)` builds just these programs, whatever records and default schedules say now. `check` says what differs.
The file is JSON, and holds no machine code: candidates, which are validated like records from elsewhere, and figures.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.files import replacing
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import candidate_key, canonical_json
from tensorsmith.records.record import Invalid, Reader
from tensorsmith.rewrites.formulations import Formulation, as_written, formulations
from tensorsmith.runtime.arguments import random_arrays
from tensorsmith.runtime.built import Kernel
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.show.line import line, many, plain
from tensorsmith.show.units import time
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

FORMAT = 1
_PACKAGES = ("tensorsmith", "llvmlite", "numpy")
_SAMPLED = 64  # elements of an output that are kept: enough to say how far another result is off
_LARGEST = 1 << 28  # bytes of a file that is read


@dataclass(frozen=True)
class LockedKernel:
    """The program of one workload. `workload` is that of its formulation; `program` and `code` are digests of the loop program and
    of the machine code; `seconds` is the time of one call."""

    title: str
    key: str  # of the workload as the model has it
    formulation: str
    workload: Mapping[str, Any]
    candidate: Mapping[str, Any]
    schedule: str
    program: str
    code: str
    seconds: float


@dataclass(frozen=True)
class LockedOutput:
    """An output on the stated inputs: a digest of its bytes, its largest magnitude, and elements at equal distances."""

    name: str
    type: str
    digest: str
    largest: float
    samples: tuple[float, ...]


@dataclass(frozen=True)
class Lock:
    """What a file holds. `inputs` is the digest of the inputs, which are `exe.random_inputs()`; `seconds` is the time of a call."""

    model: str
    target: Target
    threads: int | None  # that were asked for; None: all there are
    versions: Mapping[str, str]
    kernels: tuple[LockedKernel, ...]
    inputs: str
    outputs: tuple[LockedOutput, ...]
    seconds: float

    def __repr__(self) -> str:
        return line(self, f"{self.model}: {many(len(self.kernels), 'kernel')} for {self.target.key}, {time(self.seconds)}")

    def write(self, path: str | Path) -> None:
        """Writes the file, complete or not at all."""
        data = asdict(self) | {"format": FORMAT, "target": self.target.to_json()}
        try:
            with replacing(Path(path)) as stream:
                stream.write((json.dumps(data, indent=1, allow_nan=False, default=int) + "\n").encode())
        except OSError as problem:
            raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem

    def found(self, workload: Workload) -> tuple[Candidate, Formulation] | None:
        """The candidate for a workload, with its formulation; None where the lock has none. Raises `UserError` where it has one
        that is not valid."""
        entry = self._entries.get(workload.canonical.key)
        if entry is None:
            return None
        options = [as_written(workload), *formulations(workload, pairs=True)]
        formulation = next((f for f in options if f.name == entry.formulation), None)
        if formulation is None:
            raise UserError(f"the lock computes {entry.title} by {entry.formulation!r:.40}, which this version does not know")
        try:
            reader = Reader()
            written = reader.workload(dict(entry.workload))
            if written.canonical.key != formulation.workload.canonical.key:
                raise UserError(f"the lock's program of {entry.title} is of another definition than this version's")
            return reader.candidate(canonical_json(entry.candidate), formulation.workload, written), formulation
        except Invalid as problem:
            raise UserError(f"the lock's program of {entry.title} is not valid here: {problem}") from problem

    def needed(self, workload: Workload, title: str) -> tuple[Candidate, Formulation, str]:
        """As `found`, with where the schedule came from. Raises `UserError` where there is none."""
        found = self.found(workload)
        if found is None:
            why = "the model, its shapes or the way this version fuses it are others; make the lock anew"
            raise UserError(f"the lock of {self.model} has no program of {title}: {why}")
        return (*found, self._entries[workload.canonical.key].schedule)

    @functools.cached_property
    def _entries(self) -> dict[str, LockedKernel]:
        return {k.key: k for k in self.kernels}

    def check_target(self, target: Target) -> None:
        """Raises `UserError` for a target that the lock is not for."""
        if target.key != self.target.key:
            raise UserError(f"the lock of {self.model} is for {self.target.key}, this is {target.key}: make it anew there")


def lock(executable: Executable) -> Lock:
    """The lock of an executable that was compiled in this process; takes a second or so, to time it."""
    if isinstance(executable, OpenExecutable):
        raise UserError(f"{executable.name} has open dimensions, a lock is of fixed sizes: lock the executable of one, exe.at(...)")
    network = executable.network
    unknown = [k.name for k in network.kernels if k.found is None]
    if unknown:
        raise UserError(f"{executable.name} came from a file, which does not say how {unknown[0]} was made: compile its model")
    seconds, every = timed(executable)
    inputs, outputs = stated(executable)
    kernels = {found_of(k)[1].original.canonical.key: _kernel(k, s) for k, s in zip(network.kernels, every)}
    return Lock(
        plain(executable.name), network.target, network.threads, {name: version(name) for name in _PACKAGES},
        tuple(kernels.values()), inputs, outputs, seconds,
    )  # fmt: skip


def found_of(kernel: Kernel) -> tuple[Candidate, Formulation]:
    """The candidate that a kernel was built of."""
    candidate, formulation = kernel.found
    return candidate, formulation or as_written(candidate.sketch.workload)


def _kernel(kernel: Kernel, seconds: float) -> LockedKernel:
    candidate, formulation = found_of(kernel)
    return LockedKernel(
        kernel.name, formulation.original.canonical.key, formulation.name, formulation.workload.to_json(),
        json.loads(canonical_json(candidate.to_json())), kernel.schedule, program_digest(kernel), kernel.code.digest, seconds,
    )  # fmt: skip


def program_digest(kernel: Kernel) -> str:
    """Digits that differ where loop programs do."""
    return hashlib.sha256((kernel.program() if kernel.program else "").encode()).hexdigest()[:16]


def timed(executable: Executable, rounds: int = 30) -> tuple[float, list[float]]:
    """Seconds of one call of the whole, and of each kernel, the best of some rounds."""
    steps = executable.profile(rounds=rounds).steps
    every = [min((s.seconds for s in steps if s.kernel == n), default=0.0) for n in range(len(executable.network.kernels))]
    return executable.benchmark(min_seconds=0.3).best, every


def stated(executable: Executable) -> tuple[str, tuple[LockedOutput, ...]]:
    """The digest of the stated inputs, and the outputs on them."""
    given = random_arrays(executable.inputs)
    run = executable.prepare(*given)
    run.repeat(1)
    digest = _digest(a.tobytes() for a in given)
    return digest, tuple(_output(o.name, a) for o, a in zip(executable.outputs, run.outputs))


def _output(name: str, array: np.ndarray) -> LockedOutput:
    flat = array.reshape(-1).astype(np.float64)
    finite = np.where(np.isfinite(flat), flat, 0.0)
    places = np.linspace(0, max(0, flat.size - 1), min(_SAMPLED, flat.size)).astype(int)
    largest = float(np.abs(finite).max(initial=0.0))
    shape = f"{array.dtype}{list(array.shape)}"
    return LockedOutput(plain(name), shape, _digest([array.tobytes()]), largest, tuple(finite[places].tolist()))


def _digest(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:32]


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: str | Path) -> Lock:
    """The lock in a file. Raises `UserError` for anything else; what it has of candidates is validated when they are asked for."""
    try:
        file = Path(path)
        if file.stat().st_size > _LARGEST:
            raise UserError(f"{path} is too large for a lock")
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, TypeError) as problem:
        raise UserError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is no lock: it is not JSON") from problem
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        known = data.get("format") if isinstance(data, dict) else None
        raise UserError(f"{path} is no lock that this version reads (format {known!r:.20}, not {FORMAT}); make it anew")
    try:
        return _lock(data)
    except (Invalid, UserError, TypeError, KeyError, ValueError, AttributeError, OverflowError, RecursionError) as problem:
        raise UserError(f"{path} is damaged: {problem!s:.200}; make it anew") from problem


def _lock(data: Mapping[str, Any]) -> Lock:
    return Lock(
        _text(data["model"]),
        Reader().target(data["target"]),
        None if data["threads"] is None else int(data["threads"]),
        {_text(k): _text(v) for k, v in data["versions"].items()},
        tuple(_read_kernel(k) for k in data["kernels"]),
        _text(data["inputs"]),
        tuple(_read_output(o) for o in data["outputs"]),
        _number(data["seconds"]),
    )


def _read_kernel(data: Mapping[str, Any]) -> LockedKernel:
    texts = {name: _text(data[name]) for name in ("title", "key", "formulation", "schedule", "program", "code")}
    return LockedKernel(
        **texts, workload=dict(data["workload"]), candidate=dict(data["candidate"]), seconds=_number(data["seconds"])
    )


def _read_output(data: Mapping[str, Any]) -> LockedOutput:
    texts = {name: _text(data[name]) for name in ("name", "type", "digest")}
    return LockedOutput(**texts, largest=_number(data["largest"]), samples=tuple(_number(x) for x in data["samples"]))


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise UserError(f"{given!r:.40} is no text")
    return plain(given)


def _number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        raise UserError(f"{given!r:.40} is no finite number")
    return float(given)


# -- checking ----------------------------------------------------------------------------------------------------------

SAME, OTHER_CODE, OTHER_PROGRAM, SLOWER = "same", "other code", "other program", "slower"


@dataclass(frozen=True)
class CheckedKernel:
    """A kernel beside the lock's: what became of it, and seconds of a call then and now (None: not timed)."""

    title: str
    found: str
    then: float
    now: float | None


@dataclass(frozen=True)
class CheckedOutput:
    """An output beside the lock's. `difference` is the largest of the kept elements, by the output's largest magnitude; None where
    inputs or shapes are others."""

    name: str
    same: bool
    difference: float | None


@dataclass(frozen=True)
class Check:
    """What differs from a lock. `versions` are those that changed, then and now."""

    model: str
    versions: Mapping[str, tuple[str, str]]
    kernels: tuple[CheckedKernel, ...]
    outputs: tuple[CheckedOutput, ...]
    then: float
    now: float | None
    slower: bool
    different: bool

    @property
    def passed(self) -> bool:
        return not self.slower and not self.different


def check(executable: Executable, lock: Lock, allowed: float, timing: bool = True) -> Check:
    """Compares an executable, compiled by the lock, with what the lock says of it. More than `allowed` times the lock's time is
    slower. Machine code that differs is told, and is no failure: another version of the compiler writes other code."""
    entries = {k.key: k for k in lock.kernels}
    now, every = _least(executable, lock.seconds * allowed) if timing else (None, [None] * len(executable.network.kernels))
    kernels = []
    for kernel, seconds in zip(executable.network.kernels, every):
        entry = entries[found_of(kernel)[1].original.canonical.key]
        if program_digest(kernel) != entry.program:
            found = OTHER_PROGRAM
        elif seconds is not None and seconds > allowed * entry.seconds:
            found = SLOWER
        else:
            found = SAME if kernel.code.digest == entry.code else OTHER_CODE
        kernels.append(CheckedKernel(entry.title, found, entry.seconds, seconds))
    inputs, given = stated(executable)
    outputs = tuple(_compared(a, b, inputs == lock.inputs) for a, b in zip(lock.outputs, given))
    changed = {n: (v, version(n)) for n, v in lock.versions.items() if n in _PACKAGES and version(n) != v}
    slower = now is not None and now > allowed * lock.seconds
    different = (
        len(given) != len(lock.outputs) or not all(o.same for o in outputs) or any(k.found == OTHER_PROGRAM for k in kernels)
    )
    return Check(lock.model, changed, tuple(kernels), outputs, lock.seconds, now, slower, different)


def _least(executable: Executable, wanted: float) -> tuple[float | None, Sequence[float | None]]:
    """Its times, taken again where they are longer than wanted: others may have used the machine."""
    total, every = timed(executable)
    for _ in range(3):
        if total <= wanted:
            break
        again, others = timed(executable)
        total, every = min(total, again), [min(a, b) for a, b in zip(every, others)]
    return total, every


def _compared(then: LockedOutput, now: LockedOutput, same_inputs: bool) -> CheckedOutput:
    if not same_inputs or then.type != now.type or len(then.samples) != len(now.samples):
        return CheckedOutput(now.name, False, None)
    off = max((abs(a - b) for a, b in zip(then.samples, now.samples)), default=0.0)
    return CheckedOutput(now.name, then.digest == now.digest, off / (then.largest or 1.0))


def check_built(kernels: Sequence[Kernel], wanted: Sequence[tuple[Candidate, Formulation]]) -> None:
    """Raises `UserError` where a kernel is not of the candidate that the lock says, because that could not be built."""
    for kernel, (candidate, _) in zip(kernels, wanted, strict=True):
        if candidate_key(found_of(kernel)[0]) != candidate_key(candidate):
            raise UserError(f"the lock's program of {kernel.name} cannot be built by this version; make the lock anew")
