"""One case: our executables and the peers on the same inputs, checked against each other, then timed side by side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import environment
from about import SEED
from frameworks import FRAMEWORKS
from ours import formulation, kernel, same_program
from peers import peers_for
from rows import ALONE, OURS, UNTUNED, Row, row
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.referee import Comparison, Contestant, compare
from tensorsmith.measure.retake import others_running
from tensorsmith.ops.catalogue import Case
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.device import peak_round
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads

_SLACK = 4.0  # times the tolerance of the sum as written: a convolution in Winograd's way rounds more

Build = Callable[[], Executable]


class WrongAnswer(Exception):
    """A contestant's output differs from the others'."""


@dataclass(frozen=True)
class Settings:
    """How long and against whom."""

    threads: int
    seconds: float = 5.0  # of timing per case
    frameworks: Sequence[str] = tuple(FRAMEWORKS)
    patience: float = 0.0  # seconds to wait before a case until other processes are quiet
    seed: int = SEED  # of the order of the rounds
    trials: int = 64  # of peers that search


@contextlib.contextmanager
def quiet_machine() -> Iterator[None]:
    """What every script wraps around all its cases: torch's inference mode, and an allocator that keeps its memory."""
    environment.keep_freed_memory()
    try:
        import torch
    except ImportError:
        yield
        return
    with torch.inference_mode():
        yield


@dataclass
class _Field:
    """Who takes part in a case, and what is known of ours."""

    contestants: dict[str, Contestant] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)  # why a peer takes no part
    error: str | None = None  # why ours does not
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    want: np.ndarray | None = None  # the right answer
    formulation: str | None = None
    same_program: bool = False


def contest(
    case: Case,
    workload: Workload,
    build: Build,
    settings: Settings,
    *,
    untuned: Build | None = None,
    others: Mapping[str, Build] | None = None,
    **more: object,
) -> Row:
    """The case's row. `build` makes our executable, `untuned` that of the default schedule, to run beside one that was searched
    for; if both are the same code it is timed once. Where ours cannot be built, or answers wrongly, the row has an `error` and the
    peers' times alone. A peer that differs from the others is noted and not timed. `others` are executables that take part as
    peers do, by name."""
    with with_threads(settings.threads):
        gathered = _gather(case, workload, build, untuned, settings)
        _join(gathered, workload, others or {}, settings)
        result = hold(gathered.contestants, (OURS, UNTUNED, ALONE), case.name, settings)
    return row(
        result,
        flops=flops(workload),
        same_program=gathered.same_program,
        formulation=gathered.formulation,
        threads=settings.threads,
        notes=gathered.notes or None,
        error=gathered.error,
        **more,
    )


def hold(contestants: Mapping[str, Contestant], ours: Sequence[str], case: str, settings: Settings, **how: float) -> Comparison:
    """The contest itself, when other processes are quiet. Every case has an order of its own."""
    if settings.patience:
        wait_for_quiet(settings.patience)
    return compare(
        contestants,
        ours=ours,
        seed=f"{settings.seed} {case}",
        seconds=settings.seconds,
        peak=lambda seconds: peak_round(settings.threads, seconds),
        **how,  # type: ignore[arg-type]
    )


def wait_for_quiet(most: float, quiet: float = 0.5, nap: float = 0.01) -> bool:
    """Sleep until no other process has run for `quiet` seconds, `most` seconds at the longest. Whether it came to that."""
    start = last_busy = time.perf_counter()
    while (now := time.perf_counter()) - last_busy < quiet:
        if now - start > most:
            return False
        time.sleep(nap)
        if others_running():
            last_busy = time.perf_counter()
    return True


def _gather(case: Case, workload: Workload, build: Build, untuned: Build | None, settings: Settings) -> _Field:
    inputs = {name: aligned_copy(array) for name, array in random_inputs(workload).items()}
    arrays = [inputs[buffer.name] for buffer in workload.inputs]
    peers, notes = peers_for(case, arrays, settings.threads, settings.frameworks, settings.trials)
    found = _Field(notes=notes, inputs=inputs)
    found.want = want = peers[0].output().copy() if peers else evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    for peer in peers:
        try:
            check(workload, want, {peer.name: peer.output})
            found.contestants[peer.name] = peer.run
        except WrongAnswer as wrong:
            notes[peer.name] = f"wrong answer: {wrong}"
    try:
        ours = {OURS: build()} | ({UNTUNED: untuned()} if untuned else {})
        if untuned and same_program(ours[OURS], ours[UNTUNED]):
            found.same_program = True
            del ours[UNTUNED]
        found.formulation = formulation(ours[OURS], workload)
        kernels = {name: kernel(executable, inputs, settings.threads) for name, executable in ours.items()}
        check(workload, want, {name: made.output for name, made in kernels.items()})
        found.contestants |= {name: made.call for name, made in kernels.items()} | {ALONE: kernels[OURS].alone}
    except (UserError, Refusal, WrongAnswer) as problem:
        found.error = f"{type(problem).__name__}: {problem}"
    return found


def _join(field: _Field, workload: Workload, others: Mapping[str, Build], settings: Settings) -> None:
    """Executables of ours that are peers here: found by another policy."""
    assert field.want is not None
    for name, build in others.items():
        try:
            made = kernel(build(), field.inputs, settings.threads)
            check(workload, field.want, {name: made.output})
            field.contestants[name] = made.call
        except (UserError, Refusal, WrongAnswer) as problem:
            field.notes[name] = f"{type(problem).__name__}: {problem}"


def check(workload: Workload, want: np.ndarray, outputs: Mapping[str, Callable[[], np.ndarray]]) -> None:
    """Raises `WrongAnswer` with the name of the first that differs from `want` by more than rounding."""
    name = workload.outputs[0]
    for who, output in outputs.items():
        problem = difference(workload, name, output(), want, _SLACK)
        if problem is not None:
            raise WrongAnswer(f"{who}: {problem}")
