"""The last word on a network's tasks: the best records and the default schedules, timed as steps of the network itself.

Alone, a kernel runs again and again on what it left in the caches itself. In a network it finds there what the kernels before it
left, each thread what that very thread has written: schedules that share their work alike from kernel to kernel gain by that, and
no timing of single kernels can tell. So when a search is over, the network is assembled once with the best records and once with
the default schedules, both run in turns, step by step, and each task takes what was faster in its place. A second lap has the
mixture among them, since its places are others. Times differ by chance, and of many tasks some records win by chance alone:
a record has to win clearly.

The times are stored as records of their own kind (`Timing` "network"), and `compile` prefers them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from tensorsmith.assemble import assemble
from tensorsmith.compile import Built, Found, Records, best_alike, build_default, build_kernel
from tensorsmith.lang.workload import Workload
from tensorsmith.model import Model
from tensorsmith.records.keys import IN_NETWORK, Timing, candidate_key
from tensorsmith.runtime.network import NetworkExecutable
from tensorsmith.search.trial import Status, Trial
from tensorsmith.target import Target

Array = np.ndarray[Any, np.dtype[Any]]
Measure = Callable[[Sequence[NetworkExecutable]], list[Array]]

_RUN = "in network"  # the `run` of its records
_LEAST_ROUNDS, _MOST_ROUNDS = 16, 40
_LAP_SECONDS = 5.0
_CLEARLY = 1.02  # what another program than the default schedule's took counts so much more
_QUARTILE = 0.25  # of the rounds: the best one may be luck, the median is the neighbours'


class Journal(Records, Protocol):
    """Records that can be added to."""

    def add(self, workload: Workload, target: Target, timing: Timing, trials: Sequence[Trial], *, run: str = "") -> None: ...


def in_turns(networks: Sequence[NetworkExecutable]) -> list[Array]:
    """Seconds of a call of each kernel of each network, which run one after the other, again and again."""
    runs = [network.stepwise() for network in networks]
    # a network that fills the caches finds nothing of its last run there anyway
    warm = [network.memory.constants <= network.network.target.l3_bytes for network in networks]
    rows: list[list[Array]] = [[] for _ in runs]
    start, order = perf_counter(), list(range(len(runs)))
    while len(rows[0]) < _MOST_ROUNDS and (len(rows[0]) < _LEAST_ROUNDS or perf_counter() - start < _LAP_SECONDS):
        for n in order:
            if warm[n]:
                runs[n]()  # finds the caches as the other network left them
            rows[n].append(runs[n]())
        order.reverse()
    return [_by_kernel(network, np.quantile(times, _QUARTILE, axis=0)) for network, times in zip(networks, rows)]


def _by_kernel(network: NetworkExecutable, steps: Array) -> Array:
    """The mean over the steps that run a kernel."""
    numbers = [step.kernel for step in network.network.steps]
    found = np.full(len(network.network.kernels), np.nan)
    for kernel in {n for n in numbers if n is not None}:
        found[kernel] = np.mean([s for s, n in zip(steps, numbers) if n == kernel])
    return found


def settle(model: Model, journal: Journal, target: Target, timing: Timing, measure: Measure = in_turns) -> None:
    """Decides for each task of a model between its best record and the default schedule. `timing`: how the search took times."""
    _Settling(model, journal, target, timing, measure).go()


class _Settling:
    def __init__(self, model: Model, journal: Journal, target: Target, timing: Timing, measure: Measure) -> None:
        self.partition, self.journal, self.target, self.measure = model.partition, journal, target, measure
        self.timing = Timing(IN_NETWORK, timing.threads)
        self._built: dict[tuple[int, str], Built] = {}
        self.default = [self._default(n) for n in range(len(self.partition.tasks))]
        self.tuned = [self._best(n, timing) for n in range(len(self.partition.tasks))]
        self.known = [self._best(n, self.timing) for n in range(len(self.partition.tasks))]

    def go(self) -> None:
        others = [self.tuned, self.known]
        mixture = self._lap(others)
        if _names(mixture) not in {_names(variant) for variant in (self.default, *others)}:
            self._lap([mixture, *others])  # all of them, so that times of one lap are compared

    def _lap(self, others: Sequence[list[Found]]) -> list[Found]:
        """Times networks against that of the default schedules, stores what came out, and gives the best for each task."""
        variants = list({_names(variant): variant for variant in (self.default, *others)}.values())
        if len(variants) == 1:
            return self.default
        times = self.measure([self._assembled(variant) for variant in variants])
        tasks = range(len(self.default))
        return [self._best_of(task, [(float(t[task]), v[task]) for v, t in zip(variants, times)]) for task in tasks]

    def _best_of(self, task: int, timed: Sequence[tuple[float, Found]]) -> Found:
        """The fastest program of a task. Where there is a choice the times are stored; medians, if it is in several networks."""
        programs: dict[str, list[tuple[float, Found]]] = {}
        for seconds, found in timed:
            counts = 1.0 if _name(found) == _name(self.default[task]) else _CLEARLY
            programs.setdefault(_name(found), []).append((counts * seconds, found))
        medians = [(float(np.median([seconds for seconds, _ in same])), same[0][1]) for same in programs.values()]
        if len(medians) > 1:
            for seconds, (candidate, formulation) in medians:
                trial = Trial(candidate, Status.OK, seconds)
                self.journal.add(formulation.workload, self.target, self.timing, [trial], run=_RUN)
        return min(medians, key=lambda x: x[0])[1]

    # -- programs ----------------------------------------------------------------------------------------------------------

    def _best(self, task: int, timing: Timing) -> Found:
        """The best record that can be built, else the default schedule."""
        one = self.partition.tasks[task]
        for found in best_alike(one.workload, self.journal, self.target, timing, one.formulations):
            try:
                self._build(task, found)
            except Exception:  # `compile` says what is wrong with it
                continue
            return found
        return self.default[task]

    def _default(self, task: int) -> Found:
        one = self.partition.tasks[task]
        built, found = build_default(one.workload, self.target, one.name, one.formulations)
        self._built[task, _name(found)] = built
        return found

    def _build(self, task: int, found: Found) -> Built:
        key = task, _name(found)
        if key not in self._built:
            candidate, formulation = found
            self._built[key] = build_kernel(candidate, self.target, self.partition.tasks[task].name, "", formulation)
        return self._built[key]

    def _assembled(self, variant: Sequence[Found]) -> NetworkExecutable:
        built = [self._build(n, found) for n, found in enumerate(variant)]
        return assemble(self.partition, [b.kernel for b in built], [b.packers for b in built])


def _name(found: Found) -> str:
    return f"{found[1].name} {candidate_key(found[0])}"


def _names(variant: Sequence[Found]) -> tuple[str, ...]:
    return tuple(map(_name, variant))
