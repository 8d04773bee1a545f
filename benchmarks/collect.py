"""Collects records to learn a cost model from: many workloads, a few dozen programs of each, measured here.

    python benchmarks/collect.py records.db [--workloads 200] [--seconds 3600] [--seed 0] [--target NAME] [--cores N]
                                 [--most-flops 4e8] [--model FILE]

The workloads are the catalogue at batch 1, its operators at random shapes, and random DAGs like the groups of networks
(`learning_draw.py`), all from the seed. **Held out**, so that a model can be judged on them: the catalogue at batch 16, every
network, and the workloads that policies are compared by (`policies.py`). A workload that is drawn and equals one of these is passed
over.

Of each workload a short search is measured: the default schedule, seeds, what the prior likes, what the trees of these like, the
neighbours of the best, and some random programs, in the formulation that is used without a search. With `--model`, the file of a
saved model (`train.py`), also what that model likes best: what a model is wrong about is found nowhere better than there. In
the end the best few and the default schedule are timed again in turns, since how they compare matters most.

Timings are short. A time is the best of some rounds, and everything that is learned from it is relative to the other programs of
the same workload, measured within the same seconds by the same workers. On a machine that others use, several threads are hardly
ever all undisturbed: `--cores 1 --most-flops 6e7` gives times that can be believed there. The number of cores is a feature.

It goes on where it stopped: workloads that the file has records of are passed over. Several machines' files can be joined
(`tensorsmith records merge`).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import time
from collections.abc import Iterator, Sequence

from learning_draw import MOST_FLOPS, drawn
from policies import CASES
from tensorsmith.backends import backend_of, space_of
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.model import CostModel
from tensorsmith.learn.models.registry import as_model, load_model
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.workshop import Workshop
from tensorsmith.ops import catalogue
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import Formulation, formulations, likely
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.policies.tensorsmith import TensorsmithPolicy
from tensorsmith.search.policy import Policy
from tensorsmith.search.trial import Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target, native

FIRST, NEXT, NEAR, RANDOM, LIKED = 14, 8, 8, 6, 8  # programs of each kind
_FINAL = 4  # of the best that are timed again, beside the default schedule
_TIMING = Limits(rounds=10, timing_seconds=8e-3, most_seconds=0.05)
_MOST_CATALOGUE = 5  # times the operations of drawn workloads: there are few of these cases


def held_out() -> set[str]:
    """Keys of the workloads that nothing may be learned from."""
    cases = {**catalogue.cases(16), **{name: catalogue.get(name) for name in CASES}}
    return {f.workload.canonical_key for case in cases.values() for f in formulations(case.workload())}


def workloads(seed: int, most_flops: float = MOST_FLOPS) -> Iterator[tuple[str, Workload]]:
    """What to collect from, without end; the catalogue's cases among the first drawn ones."""
    known = [(name, case.workload()) for name, case in catalogue.cases(1).items()]
    known = [(name, w) for name, w in known if flops(w) <= _MOST_CATALOGUE * most_flops]
    rest = drawn(seed, most_flops)
    for one in known:
        yield one
        yield from itertools.islice(rest, 3)
    yield from rest


class Collector:
    """Measures programs of one workload after the other, and stores them."""

    def __init__(self, store: Store, target: Target, seed: int, model: CostModel | None) -> None:
        self.store, self.target, self.seed, self.model = store, target, seed, model
        self.timing = Timing("warm", target.cores)
        self.workshop = Workshop(native().cores, _TIMING)
        self.programs = 0

    def known(self, formulation: Formulation) -> int:
        return len(self.store.history(formulation.workload, self.target, self.timing))

    def collect(self, formulation: Formulation) -> int:
        """How many programs of a workload were measured."""
        workload = formulation.workload
        default = backend_of(self.target).default_candidate(workload, self.target)
        space = space_of(workload, self.target)
        policy = TensorsmithPolicy(space, seed=self.seed, model=as_model("trees", backend_of(self.target).schema))
        before = self.programs
        with Measurer(workload, self.target, runner=self.workshop, threads=self.target.cores, formulation=formulation) as measurer:
            trials = self._measure(measurer, policy, policy.ask(FIRST))
            others: list[Policy] = [RandomPolicy(space, seed=self.seed + 1)]
            wanted = [RANDOM]
            if self.model is not None:
                others.append(TensorsmithPolicy(space, seed=self.seed + 2, model=self.model.fork(self.seed)))
                wanted.append(LIKED)
            for other, count in zip(others, wanted):
                other.tell(trials)
                trials += self._measure(measurer, policy, other.ask(count))
            trials += self._measure(measurer, policy, policy.ask(NEXT))
            trials += self._measure(measurer, policy, policy.finish(NEAR))
            ran = sorted((t for t in trials if t.seconds is not None), key=lambda t: t.seconds or 0.0)
            finalists = [t.candidate for t in ran[:_FINAL] if t.candidate != default]
            again = measurer.remeasure([default, *finalists])
            self.store.add(workload, self.target, self.timing, [t for t in again if t.ok])
        return self.programs - before

    def _measure(self, measurer: Measurer, policy: Policy, candidates: Sequence[Candidate]) -> list[Trial]:
        best = policy.best_seconds
        trials = measurer.measure(candidates, best)
        self.store.add(measurer.workload, self.target, self.timing, trials)
        policy.tell(trials)
        self.programs += len(trials)
        return trials

    def close(self) -> None:
        self.workshop.close()


def stand_in(name: str | None) -> Target:
    """This machine; or it as one of the vectors and instructions of another: they can be tried here, its caches cannot."""
    here = native()
    if name is None or not isinstance(here, CpuTarget):
        return here
    other = Target.named(name)
    if not isinstance(other, CpuTarget):
        raise UserError(f"{name} is no CPU, and cannot be measured here")
    words = ("l1_bytes", "l1_ways", "l2_bytes", "l3_bytes", "line_bytes", "cores", "page_bytes")
    return dataclasses.replace(other, **{word: getattr(here, word) for word in words})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", help="file of records; made, or added to")
    parser.add_argument("--workloads", type=int, default=200, help="in the file in the end, those there are already among them")
    parser.add_argument("--seconds", type=float, help="stop after so long, at the end of a workload")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", help="code for another machine that this one can run, such as x86-64-v3")
    parser.add_argument("--cores", type=int, help="threads of the programs; one is timed well on a busy machine too")
    parser.add_argument("--most-flops", type=float, default=MOST_FLOPS, help="of a drawn workload")
    parser.add_argument("--model", help="file of a saved model: what it likes best is measured too")
    given = parser.parse_args(arguments)
    target = stand_in(given.target)
    target = target if given.cores is None else target.with_facts(cores=given.cores)
    model = None if given.model is None else load_model(given.model, backend_of(target).schema)
    begun, out = time.monotonic(), held_out()
    with Store.open(given.database) as store:
        collector = Collector(store, target, given.seed, model)
        try:
            for number, (name, workload) in enumerate(
                itertools.islice(workloads(given.seed, given.most_flops), given.workloads), 1
            ):
                formulation = likely(workload, formulations(workload))
                if formulation.workload.canonical_key in out or collector.known(formulation):
                    continue
                if given.seconds is not None and time.monotonic() - begun > given.seconds:
                    break
                try:
                    count = collector.collect(formulation)
                    what = f"{count} programs"
                except (Refusal, UserError) as problem:
                    what = f"left out: {problem}"
                print(f"{number:4} {time.monotonic() - begun:6.0f} s  {name:10} {workload.title}: {what}", flush=True)
        finally:
            collector.close()
        print(f"{collector.programs} programs measured, {len(store.workloads())} workloads in {given.database}", file=sys.stderr)


if __name__ == "__main__":
    main()
