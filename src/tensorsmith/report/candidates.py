"""Candidates in words and in forecasts, remembered: a report that follows a tuning asks again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tensorsmith.backends import backend_of
from tensorsmith.errors import Refusal, TensorsmithError
from tensorsmith.program.lower import lower
from tensorsmith.records.keys import candidate_key
from tensorsmith.records.record import Record
from tensorsmith.report.curves import full_seconds
from tensorsmith.report.data import Forecast, Listing
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

_FORECASTS = 48  # candidates of a task that the prior is asked about: some milliseconds each

T = TypeVar("T")


def decisions(candidate: Candidate) -> str:
    """`C.i.1=4 C.j.1=8`"""
    return " ".join(f"{hole}={value}" for hole, value in candidate.decisions.items())


class Candidates:
    """What is known of candidates for targets without running them."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, ...], tuple[str, str]] = {}
        self._expected: dict[tuple[str, ...], float | None] = {}

    def listing(self, candidate: Candidate, target: Target, formulation: str, seconds: float | None) -> Listing:
        loops, explanation = _remembered(self._texts, candidate, target, _texts)
        return Listing(candidate_key(candidate), formulation, seconds, decisions(candidate), loops, explanation)

    def expected(self, candidate: Candidate, target: Target) -> float | None:
        """Seconds by the analytic prior; None where it cannot tell."""
        return _remembered(self._expected, candidate, target, _expected)

    def forecasts(self, records: Sequence[Record], target: Target) -> tuple[Forecast, ...]:
        """Of some of the candidates that were timed, evenly from the fastest to the slowest."""
        timed = {r.key: r for r in records if full_seconds(r)}
        ordered = sorted(timed.values(), key=lambda r: r.seconds or 0.0)
        places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _FORECASTS)).astype(int)).tolist() if ordered else []
        found = []
        for record in (ordered[p] for p in places):
            expected = self.expected(record.candidate, target)
            if expected:
                found.append(Forecast(record.key, expected, record.seconds or 0.0))
        return tuple(found)


def in_order(forecasts: Sequence[Forecast]) -> float | None:
    """The share of pairs that are expected in the order in which they were measured; pairs of equal times do not count."""
    expected, measured = (np.array([getattr(f, name) for f in forecasts]) for name in ("expected", "measured"))
    first, second = np.triu_indices(len(forecasts), 1)
    guessed, real = np.sign(expected[first] - expected[second]), np.sign(measured[first] - measured[second])
    counted = real != 0
    return float(np.mean(guessed[counted] == real[counted])) if counted.any() else None


def _texts(candidate: Candidate, target: Target) -> tuple[str, str]:
    try:
        return str(lower(candidate)), backend_of(target).explain(candidate, target)
    except TensorsmithError as problem:
        return f"these loops cannot be shown: {problem}", ""


def _expected(candidate: Candidate, target: Target) -> float | None:
    try:
        backend = backend_of(target)
        return float(backend.estimated_seconds(backend.extract_rows([(candidate.sketch, candidate.decisions)], target), target)[0])
    except Refusal:
        return None


def _remembered(known: dict[tuple[str, ...], T], candidate: Candidate, target: Target, make: Callable[[Candidate, Target], T]) -> T:
    key = candidate.sketch.workload.key, candidate_key(candidate), target.key
    if key not in known:
        known[key] = make(candidate, target)
    return known[key]
