"""The promises of a runner (`tensorsmith.measure.runner`), each checked on its own. It measures a few small programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensorsmith.backends import backend_of, space_of
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Turns
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.places import GivenRunner, as_place
from tensorsmith.measure.runner import Runner
from tensorsmith.search.trial import Trial
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target, native
from tensorsmith.testing.promise import calling, demand, matmul, returning, tiny

_SOME = 6  # candidates
_ROUNDS = 3


def check_runner(runner: GivenRunner, *, target: Target | None = None) -> None:
    """Raises `BrokenPromise` if a runner breaks a promise; `runner` is what `ts.tune(runner=...)` takes.

    It measures for this machine, unless a `target` is given. One that is given as an object stays open.

        check_runner("ssh board", target=ts.Target.named("cortex-a53"))
    """
    place, wanted = as_place(runner), target or native()
    made = calling("a place makes a runner for a target", place.make, wanted, lambda text: None)
    suite = _Suite(made, wanted)
    try:
        for check in (
            suite.measures_every_candidate_once,
            suite.measures_several_workloads_at_a_time,
            suite.takes_failures_for_results,
            suite.compares,
            suite.drops_what_is_cancelled,
            suite.heeds_stop,
            suite.says_who_is_there,
        ):
            check()
    finally:
        if not place.lasting:
            made.close()
    if not place.lasting:
        calling("close can be called twice", made.close)


class _Suite:
    def __init__(self, runner: Runner, target: Target) -> None:
        self.runner, self.target = runner, target
        self.first, self.second = matmul(), tiny()

    def measurer(self, workload: Workload) -> Measurer:
        return calling("a runner measures for its target", lambda: Measurer(workload, self.target, threads=1, runner=self.runner))

    def candidates(self, workload: Workload, count: int) -> list[Candidate]:
        space = space_of(workload, self.target)
        drawn = space.candidates(sample(space, count, np.random.default_rng(0)))
        return [backend_of(self.target).default_candidate(workload, self.target), *drawn][:count]

    def measure(self, measurer: Measurer, given: list[Candidate], promise: str) -> list[Trial]:
        return returning(promise, measurer.measure, given)

    # -- promises ------------------------------------------------------------------------------------------------------------

    def measures_every_candidate_once(self) -> None:
        promise = "every candidate gets one trial"
        with self.measurer(self.first) as measurer:
            given = self.candidates(self.first, _SOME)
            trials = self.measure(measurer, given, promise)
            demand([t.candidate for t in trials] == given, promise, f"{len(trials)} trials for {len(given)} candidates")
            timed = [t for t in trials if t.ok]
            demand(bool(timed), "the default schedule runs", f"{trials[0].status.value}: {trials[0].cause}")
            fine = all(t.seconds is not None and t.seconds > 0 for t in timed)
            demand(fine, "what ran has a time above 0", f"{[t.seconds for t in timed]}")
            demand(measurer.pending == 0, "nothing is pending when all is measured", f"{measurer.pending} are")
            demand(measurer.times.trials == len(given), "trials are counted once", f"{measurer.times.trials} for {len(given)}")

    def measures_several_workloads_at_a_time(self) -> None:
        promise = "candidates of several workloads can be measured at a time"
        with self.measurer(self.first) as one, self.measurer(self.second) as other:
            mine, others = self.candidates(self.first, 2), self.candidates(self.second, 1)
            for measurer, given in ((one, mine), (other, others)):
                calling(promise, measurer.submit, given)
            for measurer, given in ((other, others), (one, mine)):
                found = returning(promise, lambda m: list(m.results()), measurer)
                keys = {t.candidate.sketch.workload.key for t in found}
                demand(len(found) == len(given) and keys == {measurer.workload.key}, promise, f"{len(found)} of {len(given)} came")

    def takes_failures_for_results(self) -> None:
        promise = "a candidate that cannot be built is a result, and the others do not notice"
        large = matmul(257, 512, 13)
        with self.measurer(large) as measurer:
            good = backend_of(self.target).default_candidate(large, self.target)
            bad = Candidate(good.sketch, dict.fromkeys(good.decisions, 512))  # a tile that no machine has the registers for
            trials = self.measure(measurer, [good, bad, good], promise)
            demand([t.ok for t in trials] == [True, False, True], promise, f"{[t.status.value for t in trials]}")
            demand(bool(trials[1].cause) and trials[1].seconds is None, "what failed has a cause and no time", repr(trials[1]))

    def compares(self) -> None:
        promise = "a contest gives every program its rounds"
        conditions = (Condition.ALONE, Condition.BACK_TO_BACK)
        with self.measurer(self.first) as measurer:
            good = self.candidates(self.first, 1)[0]
            contenders = [(measurer, good), (measurer, replace(good))]
            found = returning(promise, measurer.compare, contenders, Turns.even(_ROUNDS, conditions))
            for one in found:
                counts = {c: len(one.rounds[c]) for c in conditions}
                demand(one.trial.ok, promise, f"{one.trial.status.value}: {one.trial.cause}")
                demand(all(n >= _ROUNDS for n in counts.values()), promise, f"{counts}")
            demand(len(found) == 2, promise, f"{len(found)} results for 2")
            demand(measurer.pending == 0 and measurer.done == 0, "a contest leaves nothing behind", f"{measurer.pending}")

    def drops_what_is_cancelled(self) -> None:
        promise = "what is cancelled is dropped, and others can be measured then"
        with self.measurer(self.first) as measurer:
            given = self.candidates(self.first, _SOME)
            calling(promise, measurer.submit, given)
            dropped = calling(promise, measurer.cancel)
            demand(measurer.pending == 0, promise, f"{measurer.pending} are pending")
            demand(len(dropped) + measurer.done == len(given), promise, f"{len(dropped)} were dropped, {measurer.done} are done")
            list(measurer.results())
            trials = self.measure(measurer, given[:1], promise)
            demand(len(trials) == 1 and trials[0].ok, promise, f"{trials}")

    def heeds_stop(self) -> None:
        promise = "waiting ends when stop() is true"
        with self.measurer(self.first) as measurer:
            calling(promise, measurer.submit, self.candidates(self.first, _SOME))
            stop: Callable[[], bool] = lambda: True  # noqa: E731
            returning(promise, lambda m: list(m.results(stop)), measurer)
            calling(promise, measurer.cancel)

    def says_who_is_there(self) -> None:
        nodes = calling("nodes says who is there", self.runner.nodes)
        demand(bool(nodes), "nodes says who is there", "it says that nobody is")
        for node in nodes:
            demand(bool(node.name and node.state), "a node has a name and a state", repr(node))
            demand(bool(node.does or node.why), "a node that does nothing says why", repr(node))
        demand(self.runner.places >= 1, "there is a place to time a program", f"{self.runner.places}")
