"""What a kind of machine gives to the rest of the package, and the kinds there are.

    backend_of(target).default_candidate(workload, target)

Everything that depends on the kind of machine is reached through its record. A new kind is a new folder with a record of its own,
made known by `register_backend`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.space.rules.base import Rule
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target


@dataclass(frozen=True)
class Backend:
    """One kind of machine."""

    kind: str  # the `kind` of its targets
    rule_sets: Mapping[str, tuple[Rule, ...]]  # by name: "default", "ansor"
    default_candidate: Callable[[Workload, Target], Candidate]  # without any search, from the target's facts
    explain: Callable[[Candidate, Target], str]  # what a candidate asks of the machine, in words
    expected_seconds: Callable[[Candidate, Target], float]  # by the analytic prior
    expected_roof: Callable[[Target], tuple[float, float]]  # operations and bytes per second at most, by the target's facts


#: modules whose `BACKEND` is the record of a kind, imported when it is first asked for
_BUILT_IN = {"cpu": "tensorsmith.backends.cpu"}
_known: dict[str, Backend] = {}


def register_backend(backend: Backend) -> None:
    """Makes a kind of machine known to this process."""
    if backend.kind in _BUILT_IN or backend.kind in _known:
        raise UserError(f"there is a backend for targets of kind {backend.kind!r} already; give this one another kind")
    _known[backend.kind] = backend


def known() -> tuple[str, ...]:
    """The kinds there are."""
    return tuple(dict.fromkeys([*_BUILT_IN, *_known]))


def backend_of(target: Target) -> Backend:
    """The backend of a target's kind."""
    kind = target.kind
    if kind not in _known:
        if kind not in _BUILT_IN:
            raise UserError(f"there is no backend for targets of kind {kind!r}; known are {', '.join(known())}")
        _known[kind] = importlib.import_module(_BUILT_IN[kind]).BACKEND
    return _known[kind]
