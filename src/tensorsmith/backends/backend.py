"""What a kind of machine gives to the rest of the package, and the kinds there are.

    backend_of(target).default_candidate(workload, target)

Everything that depends on the kind of machine is reached through its record. A new kind is a new folder with a record of its own,
made known by `register_backend`. What is needed to run code without building any is in the record's `device`, which is found alone
too (`runtime/device.py`), and the facts of a machine are in the kind's class of targets.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from tensorsmith.errors import UserError, needed_for
from tensorsmith.runtime.built import Code
from tensorsmith.runtime.device import Device, register_device
from tensorsmith.show.line import line
from tensorsmith.targets.target import Target, register_kind

if TYPE_CHECKING:  # the record is asked for by programs that use little of it
    from tensorsmith.lang.workload import Workload
    from tensorsmith.learn.features.rows import Array, Batch, FeatureRows
    from tensorsmith.learn.features.schema import Schema
    from tensorsmith.program.ir import Program
    from tensorsmith.space.rules.base import Rule
    from tensorsmith.space.sketch.sketch import Candidate
    from tensorsmith.space.tactics import Tactics

T = TypeVar("T", bound=Target)


@dataclass(frozen=True)
class KernelCode:
    """The code of a program and the memory that it needs. The output may lie where one of the `replaceable` inputs does."""

    code: Code
    scratch_bytes: int = 0
    scratch_bytes_per_thread: int = 0
    replaceable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Backend(Generic[T]):
    """One kind of machine."""

    kind: str  # the `kind` of its targets
    target: type[T]  # their class: facts, detection, names, JSON
    device: Device  # what runs its code
    rule_sets: Mapping[str, tuple[Rule, ...]]  # by name: "default", "ansor"
    default_candidate: Callable[[Workload, T], Candidate]  # without any search, from the target's facts
    tactics: Callable[[T], Tactics]  # what a target tells the space
    generate: Callable[[Program, T], KernelCode]  # a program whose extents are numbers to code; raises `Refusal` where it cannot
    schema: Schema  # of its features
    extract_rows: Callable[[Sequence[Batch], T], FeatureRows]  # features of candidates, many structures at once
    estimated_seconds: Callable[[FeatureRows, T], Array]  # that each candidate takes, before anything is measured
    explain: Callable[[Candidate, T], str]  # the same in words
    expected_roof: Callable[[T], tuple[float, float]]  # operations and bytes per second at most, by the target's facts
    #: seconds that one candidate is estimated to take, by its generated code; of kinds that are tuned without the machine, too
    estimate: Callable[[Candidate, T], float] | None = None
    begin: Callable[[Program, T], Callable[[], KernelCode]] | None = None  # `generate` in halves; another thread may run the second
    #: for the time that so many kernels are made: gives how many of `begin`'s second halves are worth running at once
    compilers: Callable[[int], AbstractContextManager[int]] | None = None
    module: str = ""  # whose import makes it known to the processes that measure; "": it is the package's own

    def __repr__(self) -> str:
        return line(self, self.kind)

    def prior_scores(self, rows: FeatureRows, target: T) -> Array:
        """The logarithm (to base 2) of the estimated speed of each candidate: what a cost model begins with."""
        return -np.log2(np.maximum(self.estimated_seconds(rows, target), 1e-12))


def later(module: str, function: str) -> Callable[..., Any]:
    """A function whose module is imported when it is first called: most programs need few of a backend's parts."""

    def call(*arguments: Any) -> Any:
        with needed_for("compiling"):
            found = getattr(importlib.import_module(module), function)
        return found(*arguments)

    return call


#: modules whose `BACKEND` is the record of a kind, imported when it is first asked for
_BUILT_IN = {"cpu": "tensorsmith.backends.cpu.backend", "gpu": "tensorsmith.backends.gpu.backend"}
_known: dict[str, Backend[Any]] = {}


def register_backend(backend: Backend[Any]) -> None:
    """Makes a kind of machine known to this process."""
    if backend.kind in _BUILT_IN or backend.kind in _known:
        raise UserError(f"there is a backend for targets of kind {backend.kind!r} already; give this one another kind")
    for part in (backend.target, backend.device):
        if part.kind != backend.kind:
            raise UserError(f"the backend for targets of kind {backend.kind!r} has a part of kind {part.kind!r}")
    _known[backend.kind] = backend
    register_kind(backend.target)
    register_device(backend.device)


def known() -> tuple[str, ...]:
    """The kinds there are."""
    return tuple(dict.fromkeys([*_BUILT_IN, *_known]))


def known_modules() -> set[str]:
    """The modules of the kinds that this process knows and that are not the package's own."""
    return {backend.module for backend in _known.values()} - {""}


def backend_of(target: T) -> Backend[T]:
    """The backend of a target's kind."""
    return backend_named(target.kind)


def backend_named(kind: str) -> Backend[Any]:
    """The backend of a kind of targets."""
    if kind not in _known:
        if kind not in _BUILT_IN:
            raise UserError(f"there is no backend for targets of kind {kind!r}; known are {', '.join(known())}")
        with needed_for("compiling"):
            _known[kind] = importlib.import_module(_BUILT_IN[kind]).BACKEND
    return _known[kind]
