"""One case: our executable and the peers on the same inputs, checked against each other, then timed side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import environment
from harness import Contestant, compare, wait_for_quiet
from ours import kernel
from peers import FRAMEWORKS, peers_for
from report import OURS, Row, row
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.catalogue import Case
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.peak import peak_kernel

_SLACK = 4.0  # times the tolerance of the sum as written: a convolution in Winograd's way rounds more


class WrongAnswer(Exception):
    """A contestant's output differs from the others'."""


@dataclass(frozen=True)
class Settings:
    """How long and against whom."""

    threads: int
    seconds: float = 2.0  # per case
    frameworks: Sequence[str] = tuple(FRAMEWORKS)
    torch_compile: bool = False
    patience: float = 0.0  # seconds to wait before a case until other processes are quiet
    python_call: bool = False  # time ours a second time through `Executable.__call__`, as the peers are


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


def contest(case: Case, workload: Workload, build: Callable[[], Executable], settings: Settings, **more: object) -> Row:
    """The case's row. `build` makes our executable; where it cannot, or answers wrongly, the row has an `error` and the
    peers' times alone. A peer that differs from the others raises `WrongAnswer`."""
    inputs = random_inputs(workload)
    arrays = [inputs[buffer.name] for buffer in workload.inputs]
    peers = peers_for(case, arrays, settings.threads, settings.frameworks, torch_compile=settings.torch_compile)
    want = peers[0].output().copy() if peers else evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    check(workload, want, {peer.name: peer.output for peer in peers[1:]})
    contestants: dict[str, Contestant] = {peer.name: peer.run for peer in peers}
    error = None
    try:
        mine = kernel(build(), inputs, settings.threads)
        check(workload, want, {OURS: mine.output})
        contestants = {OURS: mine.contestant, **contestants}
        if settings.python_call:
            more["python_call"] = compare({OURS: mine.call}, seconds=settings.seconds / 10)[OURS].best
    except (UserError, Refusal, WrongAnswer) as problem:
        error = f"{type(problem).__name__}: {problem}"
    del want
    fma = peak_kernel()
    if settings.patience:
        wait_for_quiet(settings.patience)
    result = compare(contestants, seconds=settings.seconds, keep=[OURS], peak=lambda s: fma.run_once(settings.threads, s))
    return row(result, flops=flops(workload), threads=settings.threads, error=error, **more)


def check(workload: Workload, want: np.ndarray, outputs: Mapping[str, Callable[[], np.ndarray]]) -> None:
    """Raises `WrongAnswer` with the name of the first that differs from `want` by more than rounding."""
    name = workload.outputs[0]
    for who, output in outputs.items():
        problem = difference(workload, name, output(), want, _SLACK)
        if problem is not None:
            raise WrongAnswer(f"{who}: {problem}")
