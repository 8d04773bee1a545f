"""What a tuning run of networks has to do for each of their workloads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorsmith.lang.workload import Workload
from tensorsmith.rewrites.formulations import Options


@dataclass(frozen=True)
class NetworkTask:
    """A workload to tune, in any of some formulations, and how often each network runs it."""

    name: str
    workload: Workload
    weights: tuple[int, ...]
    formulations: Options


def together(options: Iterable[Options]) -> Options:
    """The formulations of a workload of several networks: one of them may have no memory for some."""
    return tuple({f.name: f for some in options for f in some}.values())
