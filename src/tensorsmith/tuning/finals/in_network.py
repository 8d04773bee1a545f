"""The last word on a network's tasks: the best records and the default schedules, timed as steps of the network itself.

Alone, a kernel runs again and again on what it left in the caches itself. In a network it finds there what the kernels before it
left, each thread what that very thread has written: schedules that share their work alike from kernel to kernel gain by that, and
no timing of single kernels can tell. So when a search is over, the network is assembled once with the best records and once with
the default schedules, both run in turns, step by step, and each task takes what was faster in its place. A second lap has the
mixture among them, since its places are others. Times differ by chance, and of many tasks some records win by chance alone:
a record has to win clearly.

A time counts only for a right answer. What ever failed takes no part. The networks run in a process of their own, on poisoned
memory, and every answer is compared with that of the reference evaluator on the imported graph; where that would take too long,
with that of the default schedules' network, which owes nothing to any record. A network that is wrong, crashes or hangs is
taken apart until it is known which programs do it: those are stored as failed, and their tasks have the default schedule instead.

The times are stored as records of their own kind (`Timing` "network"), that of each task's choice as the winner's, and `compile`
prefers them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tensorsmith.build import Found, build_default, build_kernel
from tensorsmith.compile import Records, best_alike
from tensorsmith.elements import BY_NUMPY, kind_of
from tensorsmith.graph.assemble import assemble
from tensorsmith.graph.model import Model
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.networks import Ran, run
from tensorsmith.records.keys import IN_NETWORK, Timing, candidate_key
from tensorsmith.records.record import FINALISTS, WINNER
from tensorsmith.runtime.built import Kernel
from tensorsmith.runtime.executable import Executable, executable
from tensorsmith.search.trial import Status, Trial
from tensorsmith.show.line import plain
from tensorsmith.targets.target import Target
from tensorsmith.tuning.progress.network import UNCHANGED, Settled

Array = np.ndarray[Any, np.dtype[Any]]
Variant = list[Found]  # a program for each task

log = logging.getLogger(__name__)

_LAP_SECONDS = 7.0  # at most, of networks that are not slow: to start a process, and for all rounds
_CLEARLY = 1.02  # another program than the default schedule's has to be faster by more than this
_AFFORDABLE = 1e10  # operations of a network that the reference evaluator is asked about: it takes some seconds for them
_TOLERANCE = {"bf16": 4e-1, "f16": 1e-1, "f32": 1e-2, "f64": 1e-2}  # rounding of many layers
_MOST_DIFFERENT = 0.01  # share of integers and bools that rounding before them may change


class Journal(Records, Protocol):
    """Records that can be added to, and that know what failed."""

    def add(self, workload: Workload, target: Target, timing: Timing, trials: Sequence[Trial], *, run: str = "") -> None: ...

    def failed(self, workload: Workload, target: Target) -> set[str]: ...


class Measure(Protocol):
    """Runs networks, and times them in turns: `measure.networks.run`."""

    def __call__(self, networks: Sequence[Executable], timed: bool = True) -> Ran: ...


def after_the_run(kernels: int, tuned: int, build: float) -> float:
    """Seconds that are needed after a search: to build the default schedules and the records of all networks, for a lap, and to
    compile what comes out. `build` is what one build took in the search."""
    return _LAP_SECONDS + build * (kernels + tuned + kernels)


def settle(
    model: Model,
    journal: Journal,
    target: Target,
    timing: Timing,
    measure: Measure = run,
    seconds_left: Callable[[], float | None] = lambda: None,
) -> Settled | None:
    """Decides for each task of a model between its best record and the default schedule. `timing`: how the search took times.

    It ends in time to compile the result, by what building the default schedules took. Where there is no time for a lap nothing is
    decided, and the finals of the tasks stand.

    Gives what the network takes with the default schedules and as it was decided, both of one lap: it is `estimated` where the
    network as it was decided did not run itself. `UNCHANGED`: only default schedules are used. None: nothing was decided.
    """
    return _Settling(model, journal, target, timing, measure, seconds_left).go()


@dataclass(frozen=True)
class _Wrong:
    """The network that something is wrong with, by its number, and what."""

    network: int
    status: Status
    cause: str


class _Settling:
    def __init__(
        self,
        model: Model,
        journal: Journal,
        target: Target,
        timing: Timing,
        measure: Measure,
        seconds_left: Callable[[], float | None],
    ) -> None:
        self.seconds_left = seconds_left
        self.model, self.partition = model, model.partition
        self.journal, self.target, self.measure = journal, target, measure
        self.timing = Timing(IN_NETWORK, timing.threads)
        self._built: dict[tuple[int, str], Kernel] = {}
        self._right: list[Array] | None = None
        self.settled: Settled | None = None  # by the last lap
        self._compiling = 0.0  # seconds that the result needs, about
        self._alone = timing

    def go(self) -> Settled | None:
        left = self.seconds_left()
        tasks = range(len(self.partition.tasks))
        self.default = [self._default(n) for n in tasks]
        self._compiling = self._since(left)
        if not self._affords(_LAP_SECONDS + self._compiling):  # the records are still to be built
            return None
        self.tuned = [self._best(n, self._alone) for n in tasks]
        self.known = [self._best(n, self.timing) for n in tasks]
        if not self._affords(_LAP_SECONDS):
            return None
        left = self.seconds_left()
        first = self._lap([self.tuned, self.known])
        if first is None:
            return UNCHANGED if len(_distinct([self.default, self.tuned, self.known])) == 1 else None
        mixture, others = first
        if not self._affords(self._since(left)):
            return self.settled
        if _names(mixture) not in {_names(variant) for variant in (self.default, *others)}:
            self._lap([mixture, *others])  # all of them, so that times of one lap are compared
        return self.settled

    def _since(self, left: float | None) -> float:
        """Seconds since so many were left."""
        now = self.seconds_left()
        return 0.0 if left is None or now is None else left - now

    def _affords(self, seconds: float) -> bool:
        """Whether there is time for that, and for the compiling of the result."""
        left = self.seconds_left()
        return left is None or left >= seconds + self._compiling

    def _lap(self, others: Sequence[Variant]) -> tuple[Variant, list[Variant]] | None:
        """Times networks against that of the default schedules, stores what came out, and gives the best for each task, and the
        networks that were right; None if there is nothing to choose."""
        variants = _distinct([self.default, *others])
        while len(variants) > 1:
            networks = [self._assembled(variant) for variant in variants]
            ran = self.measure(networks)
            wrong = self._wrong(networks, ran)
            if wrong is None:
                times = [_by_kernel(network, seconds) for network, seconds in zip(networks, ran.seconds)]
                chosen = self._choose(variants, times)
                self.settled = self._seconds(chosen, variants, networks[0], ran.seconds, times)
                kept = sum(_name(found) != _name(default) for found, default in zip(chosen, self.default))
                log.info("%s as a whole: %s; %d of %d tasks keep a record", self.model.name, self.settled, kept, len(chosen))
                return chosen, variants[1:]
            if wrong.network == 0:
                message = f"{self.model.name} with default schedules only: {wrong.cause}; no program was chosen by it"
                warnings.warn(plain(message), stacklevel=4)
                return None
            repaired = self._repaired(variants[wrong.network], wrong)
            variants = _distinct([v if n != wrong.network else repaired for n, v in enumerate(variants)])
        return None

    def _seconds(
        self, chosen: Variant, variants: Sequence[Variant], default: Executable, steps: Sequence[Array], times: Sequence[Array]
    ) -> Settled:
        """What the network takes, by what a lap measured; the first variant is that of the default schedules."""
        untuned = float(np.sum(steps[0]))
        for variant, seconds in zip(variants, steps):
            if _names(variant) == _names(chosen):
                return Settled(untuned, float(np.sum(seconds)), False)
        best = [
            float(np.median([t[n] for v, t in zip(variants, times) if _name(v[n]) == _name(found)]))
            for n, found in enumerate(chosen)
        ]
        copies = sum(float(s) for s, step in zip(steps[0], default.network.steps) if step.kernel is None)
        calls = sum(best[step.kernel] for step in default.network.steps if step.kernel is not None)
        return Settled(untuned, calls + copies, True)

    def _choose(self, variants: Sequence[Variant], times: Sequence[Array]) -> Variant:
        tasks = range(len(self.default))
        return [self._best_of(task, [(float(t[task]), v[task]) for v, t in zip(variants, times)]) for task in tasks]

    def _best_of(self, task: int, timed: Sequence[tuple[float, Found]]) -> Found:
        """The program of a task to use. Where there is a choice the times are stored; medians, if it is in several networks."""
        programs: dict[str, list[tuple[float, Found]]] = {}
        for seconds, found in timed:
            programs.setdefault(_name(found), []).append((seconds, found))
        medians = [(float(np.median([seconds for seconds, _ in same])), same[0][1]) for same in programs.values()]

        def counts(timed: tuple[float, Found]) -> float:
            return timed[0] * (1.0 if _name(timed[1]) == _name(self.default[task]) else _CLEARLY)

        best = min(medians, key=counts)
        if len(medians) > 1:
            for one in sorted(medians, key=lambda m: m is best):  # the winner last: it stands before all that is stored by then
                self._store(one[1], Trial(one[1][0], Status.OK, one[0]), WINNER if one is best else FINALISTS)
        return best[1]

    def _store(self, found: Found, trial: Trial, run: str) -> None:
        self.journal.add(found[1].workload, self.target, self.timing, [trial], run=run)

    # -- right answers -----------------------------------------------------------------------------------------------------

    def _wrong(self, networks: Sequence[Executable], ran: Ran) -> _Wrong | None:
        """The first network that failed or has a wrong answer."""
        if ran.failure is not None:
            return _Wrong(ran.failure.network, ran.failure.status, ran.failure.cause)
        right = self._reference(networks[0], ran)
        for n, (network, answers) in enumerate(zip(networks, ran.answers)):
            for outputs in answers:
                for argument, got, want in zip(network.outputs, outputs, right):
                    problem = unlike(argument.name, got, want)
                    if problem is not None:
                        return _Wrong(n, Status.WRONG_ANSWER, problem)
        return None

    def _reference(self, default: Executable, ran: Ran) -> list[Array]:
        """The right outputs: by the evaluator, where it can be asked, else those of the first network, of default schedules."""
        if self._right is None:
            work = sum(task.weight * flops(task.workload) for task in self.partition.tasks)
            if work <= _AFFORDABLE:
                inputs = {a.name: x for a, x in zip(default.inputs, default.random_inputs())}
                found = self.model.evaluate(inputs)
                self._right = [found[argument.name] for argument in default.outputs]
            else:
                self._right = ran.answers[0][0]
        return self._right

    def _repaired(self, variant: Variant, wrong: _Wrong) -> Variant:
        """A network that is wrong, with default schedules for the tasks to blame; they are stored as failed."""
        suspects = [task for task, found in enumerate(variant) if _name(found) != _name(self.default[task])]
        blamed = self._blame(variant, suspects, wrong)
        for task, why in blamed.items():
            log.warning("%s in %s: %s, %s", self.partition.tasks[task].name, self.model.name, why.status.value, why.cause)
            self._store(variant[task], Trial(variant[task][0], why.status, cause=why.cause), FINALISTS)
        if not blamed:  # none does it alone
            return self.default
        return [self.default[task] if task in blamed else found for task, found in enumerate(variant)]

    def _blame(self, variant: Variant, suspects: Sequence[int], wrong: _Wrong | None) -> dict[int, _Wrong]:
        """Tasks whose programs, among default schedules, make the network wrong; `wrong`: what is so with all suspects."""
        if wrong is None or not suspects:
            return {}
        if len(suspects) == 1:
            return {suspects[0]: wrong}
        found: dict[int, _Wrong] = {}
        middle = len(suspects) // 2
        for some in (suspects[:middle], suspects[middle:]):
            mixed = [program if task in some else self.default[task] for task, program in enumerate(variant)]
            networks = [self._assembled(self.default), self._assembled(mixed)]
            found |= self._blame(variant, some, self._wrong(networks, self.measure(networks, timed=False)))
        return found

    # -- programs ----------------------------------------------------------------------------------------------------------

    def _best(self, task: int, timing: Timing) -> Found:
        """The best record that never failed and can be built, else the default schedule."""
        one = self.partition.tasks[task]
        for found in best_alike(one.workload, self.journal, self.target, timing, one.formulations):
            if candidate_key(found[0]) in self.journal.failed(found[1].workload, self.target):
                continue
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

    def _build(self, task: int, found: Found) -> Kernel:
        key = task, _name(found)
        if key not in self._built:
            candidate, formulation = found
            self._built[key] = build_kernel(candidate, self.target, self.partition.tasks[task].name, "", formulation)
        return self._built[key]

    def _assembled(self, variant: Sequence[Found]) -> Executable:
        kernels = [self._build(n, found) for n, found in enumerate(variant)]
        return executable(assemble(self.partition, kernels, self.target), self.timing.threads)


def _name(found: Found) -> str:
    return f"{found[1].name} {candidate_key(found[0])}"


def _names(variant: Sequence[Found]) -> tuple[str, ...]:
    return tuple(map(_name, variant))


def _distinct(variants: Sequence[Variant]) -> list[Variant]:
    return list({_names(variant): variant for variant in variants}.values())


def _by_kernel(network: Executable, steps: Array) -> Array:
    """The mean over the steps that run a kernel."""
    numbers = [step.kernel for step in network.network.steps]
    found = np.full(len(network.network.kernels), np.nan)
    for kernel in {n for n in numbers if n is not None}:
        found[kernel] = np.mean([s for s, n in zip(steps, numbers) if n == kernel])
    return found


def unlike(name: str, got: Array, want: Array) -> str | None:
    """What is wrong with an output of a network, None if it differs from the right one by rounding at most."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{name} is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if not want.size:
        return None
    if kind_of(want.dtype) != "f":
        share = float(np.mean(got != want))
        return f"{name}: {share:.0%} of the elements are wrong" if share > _MOST_DIFFERENT else None
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(w)
    size = float(np.sqrt(np.mean(np.square(w[finite])))) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        wrong = ~same & ~(finite & (np.abs(g - w) <= _TOLERANCE[BY_NUMPY[want.dtype]] * (np.abs(w) + size)))
    return f"{name}: {int(wrong.sum())} of {want.size} elements are wrong" if wrong.any() else None
