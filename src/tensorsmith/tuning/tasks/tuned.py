"""What a run has to do: a workload, in any of some formulations, and how often each network runs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorsmith.lang.workload import Workload
from tensorsmith.rewrites.formulations import Options


@dataclass(frozen=True)
class TunedTask:
    """A task of a run. A workload by itself is the one task of a network that runs it once."""

    name: str
    workload: Workload
    weights: tuple[int, ...]
    formulations: Options


def together(options: Iterable[Options]) -> Options:
    """The formulations of a workload of several networks: one of them may have no memory for some."""
    return tuple({f.name: f for some in options for f in some}.values())
