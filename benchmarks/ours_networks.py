"""Our executables of whole networks: compiled, searched for, and as contestants."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

import tensorsmith as ts
from models import Network
from peers_networks import NetworkPeer
from tensorsmith.runtime.executable import Executable
from tensorsmith.tune import NetworkProgress
from ways import Array


@dataclass
class Search:
    """What a search took, and how the estimated latency of the network came down."""

    seconds: float = 0.0
    trials: int = 0
    points: list[tuple[float, float, float]] = field(default_factory=list)  # seconds; sum of the best; of the default schedules
    counts: list[int] = field(default_factory=list)  # trials at each point

    def note(self, progress: NetworkProgress) -> None:
        """What `ts.tune` tells now and then."""
        self.trials = progress.trials
        self.points.append((progress.elapsed, progress.latencies[0], progress.first[0]))
        self.counts.append(progress.trials)

    @property
    def curve(self) -> list[tuple[float, float]]:
        """(seconds, latency) whenever it changed: the sum over the tasks that are measured in the end. Until a task is measured, it
        has the time of its default schedule, which is what it would run with."""
        found: list[tuple[float, float]] = []
        for seconds, best, default in self.points:
            latency = best + self.points[-1][2] - default
            if not found or not math.isclose(latency, found[-1][1], rel_tol=1e-6):
                found.append((seconds, latency))
        return found


@dataclass(frozen=True)
class Budget:
    """What a search may take; without trials and seconds it is what the database has, and no search."""

    trials: int | None = None
    seconds: float | None = None
    database: str | None = None
    policy: str = "tensorsmith"
    seed: int = 0
    formulations: str = "all"

    @property
    def searching(self) -> bool:
        return bool(self.trials or self.seconds)


def load(network: Network) -> ts.Model:
    return ts.load(network.path, shapes={name: array.shape for name, array in network.inputs.items()})


def tuned(model: ts.Model, budget: Budget) -> tuple[Executable, Search]:
    """The executable of the best that is known after the search."""
    found = Search()
    if not budget.searching:
        return ts.compile(model, database=budget.database, formulations=budget.formulations), found
    start = time.perf_counter()
    executable = ts.tune(
        model,
        trials=budget.trials,
        seconds=budget.seconds,
        database=budget.database,
        policy=budget.policy,
        seed=budget.seed,
        formulations=budget.formulations,
        on_progress=found.note,
    )
    found.seconds = time.perf_counter() - start
    return executable, found


def contestant(name: str, executable: Executable, inputs: Mapping[str, Array]) -> NetworkPeer:
    """Called through Python with its checks, as a user calls it, into the memory of an earlier result; on the threads of the
    moment."""
    arrays = [inputs[argument.name] for argument in executable.inputs]
    out = list(executable.run(inputs).values())

    def run() -> object:
        return executable(*arrays, out=out)

    def outputs() -> list[Array]:
        for array in out:
            array.fill(np.nan if array.dtype.kind == "f" else 0)  # what it does not write is noticed
        run()
        return [array.copy() for array in out]

    return NetworkPeer(name, run, outputs)


def flops(executable: Executable) -> int:
    """Of one run."""
    network = executable.network
    return sum(network.kernels[step.kernel].flops for step in network.steps if step.kernel is not None)


def schedules(executable: Executable) -> dict[str, int]:
    """How many steps run a kernel from a record, from the default schedule, ..."""
    network = executable.network
    return dict(Counter(network.kernels[step.kernel].schedule for step in network.steps if step.kernel is not None))
