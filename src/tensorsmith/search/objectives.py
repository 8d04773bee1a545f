"""What the tuning of networks minimises: a function of the networks' latencies, in seconds.

    total                         the sum of all latencies: the default, and all there is to say about a single network
    Targets((5e-3, 2e-3))         a latency that each network has to reach; what is faster counts for nothing
    GeometricMean((6e-3, 1.4e-3)) the geometric mean of the speed-ups over reference latencies
    lambda latencies: ...         any function of your own

The paper's fourth objective, which stops a task that has not improved for a while, is a setting of the scheduler (`patience`):
it concerns single tasks, and goes with each of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorsmith.errors import UserError

Objective = Callable[[Sequence[float]], float]

_STEP = 1e-4  # of a latency, for its derivative


def total(latencies: Sequence[float]) -> float:
    """All networks one after the other."""
    return math.fsum(latencies)


def _check(what: str, seconds: Sequence[float]) -> None:
    for s in seconds:
        if isinstance(s, bool) or not isinstance(s, (int, float)) or not 0 < s < math.inf:
            raise UserError(f"a {what} latency is {s!r}; give seconds, above 0")


def _match(what: str, given: Sequence[float], latencies: Sequence[float]) -> None:
    if len(given) != len(latencies):
        raise UserError(f"{len(given)} {what} latencies for {len(latencies)} networks; give one for each")


@dataclass(frozen=True)
class Targets:
    """The sum of max(latency, target): there is nothing to gain below the target, given in `seconds` for each network."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        _check("target", self.seconds)

    def __call__(self, latencies: Sequence[float]) -> float:
        _match("target", self.seconds, latencies)
        return math.fsum(max(pair) for pair in zip(latencies, self.seconds))


@dataclass(frozen=True)
class GeometricMean:
    """Minus the geometric mean of the networks' speed-ups over `references` (seconds each; 1 if none are given).

    Which task gains most does not depend on the references, only the value of the objective does.
    """

    references: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check("reference", self.references)

    def __call__(self, latencies: Sequence[float]) -> float:
        references = self.references or (1.0,) * len(latencies)
        _match("reference", references, latencies)
        return -math.exp(math.fsum(math.log(r / x) for r, x in zip(references, latencies)) / len(latencies))


#: those that go by a name
NAMED: dict[str, Objective] = {"sum": total, "geomean": GeometricMean()}


def named(objective: str | Objective) -> Objective:
    """An objective given by its name or as itself."""
    if callable(objective):
        return objective
    if objective not in NAMED:
        raise UserError(f"there is no objective {objective!r}; give one of {', '.join(NAMED)}, or a function of the latencies")
    return NAMED[objective]


def value(objective: Objective, latencies: Sequence[float]) -> float:
    """The objective's value; it may be the user's own, so that it is checked to be a number."""
    found = objective(list(latencies))
    try:
        number = float(found)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"the objective gives {found!r} for the latencies {list(latencies)}; it has to give a finite number")
    return number


def slopes(objective: Objective, latencies: Sequence[float]) -> list[float]:
    """How much the objective falls for each second that a latency falls: one-sided, since latencies only ever fall."""
    here = value(objective, latencies)
    found = []
    for n, latency in enumerate(latencies):
        step = _STEP * latency
        faster = [*latencies[:n], latency - step, *latencies[n + 1 :]]
        found.append((here - value(objective, faster)) / step if step else 0.0)
    return found
