"""The real systems: TVM's MetaSchedule and Halide's auto-scheduler from their wheels, beside ours.

    python benchmarks/outside.py [--batch 1] [--only C2D,GMM-3-b1] [--trials 64] [--timing T] [--peers tvm-wheel,halide-wheel]
                                 [--json FILE]

tensorsmith                  so many trials, then the best of them or the default schedule
tensorsmith equal seconds    as many seconds of search as TVM took for its trials, on the same case
tensorsmith untuned          the default schedule: no search, as Halide's answer is
tvm-wheel                    MetaSchedule with so many trials (`peers_tvm.py`)
halide-wheel                 the auto-scheduler of Adams et al. with the weights that Halide ships; it measures nothing

Both come with `pip install '.[outside]'` from a checkout (`make figures` does so). All search the computation as it is written; the
row says where ours uses Winograd's convolution, which neither of them has. A row has the seconds that everyone searched.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import tensorsmith as ts
from contest import Settings, WrongAnswer, check, hold, quiet_machine
from frameworks import OUTSIDE
from ops import Search
from ours import formulation, kernel, same_program
from peers import peers_for
from report import Report
from rows import OURS, UNTUNED, Row, row
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops
from tensorsmith.measure.referee import Contestant
from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets.target import native

EQUAL_SECONDS = f"{OURS} equal seconds"
SEARCHES = "tvm-wheel"  # whose seconds the equal ones are


def measured(case: Case, trials: int, peers: Sequence[str], settings: Settings) -> Row:
    """The case's row: whoever answers rightly, side by side."""
    workload = case.workload()
    inputs = {name: aligned_copy(array) for name, array in random_inputs(workload).items()}
    want = evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    searching: dict[str, float] = {}
    notes: dict[str, str] = {}
    contestants: dict[str, Contestant] = {}
    for name in peers:
        start = time.perf_counter()
        found, why = peers_for(case, [inputs[b.name] for b in workload.inputs], settings.threads, [name], trials)
        searching[name] = time.perf_counter() - start
        notes |= why
        for peer in found:
            try:
                check(workload, want, {peer.name: peer.output})
                contestants[peer.name] = peer.run
            except WrongAnswer as wrong:
                notes[peer.name] = f"wrong answer: {wrong}"
    ours = _ours(case, trials, searching.get(SEARCHES) if SEARCHES in contestants else None, searching)
    with with_threads(settings.threads):
        kernels = {name: kernel(made, inputs, settings.threads) for name, made in ours.items()}
        check(workload, want, {name: made.output for name, made in kernels.items()})
        contestants |= {name: made.call for name, made in kernels.items()}
        result = hold(contestants, tuple(ours), case.name, settings)
    same = same_program(ours[OURS], ours[UNTUNED])
    forms = {"formulation": formulation(ours[OURS], workload), "untuned_formulation": formulation(ours[UNTUNED], workload)}
    more = {"operator": case.operator, "trials": trials, "searching": searching, "notes": notes or None, **forms}
    return row(result, flops=flops(workload), threads=settings.threads, **more) | ({"same_program": True} if same else {})


def warm_up(peers: Sequence[str], threads: int) -> None:
    """A tiny search by everyone: what TVM imports takes it a minute, once, and must not count as seconds of the first case."""
    case = catalogue.get("GMM-small")
    inputs = random_inputs(case.workload())
    peers_for(case, list(inputs.values()), threads, peers, trials=1)


def _ours(case: Case, trials: int, seconds: float | None, searching: dict[str, float]) -> dict[str, Executable]:
    """By so many trials, by equal seconds, and without a search."""
    workload = case.workload()
    searches = {OURS: Search(trials, None, None)}
    if seconds is not None:
        searches[EQUAL_SECONDS] = Search(_AS_MANY_AS_FIT, seconds, None)
    found = {name: search(workload) for name, search in searches.items()}
    searching |= {name: search.took for name, search in searches.items()}
    return found | {UNTUNED: ts.compile(workload)}


_AS_MANY_AS_FIT = 100_000  # trials: the seconds end the search


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a row has an error."""
    given = arguments(words)
    settings = Settings(native().cores, given.timing, given.peers, trials=given.trials)
    section = f"batch {given.batch}, {given.trials} trials"
    report = Report()
    report.begin()
    with quiet_machine():
        warm_up(given.peers, settings.threads)
        for case in given.cases:
            report.add(section, case.name, measured(case, given.trials, given.peers, settings))
            report.write(given.json)
    report.print(section)
    return 1 if report.errors else 0


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--only", type=_names, default=(), help="operators or cases")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--timing", type=float, default=2.0, help="seconds of timing per case")
    parser.add_argument("--peers", type=_names, default=tuple(OUTSIDE), help=",".join(OUTSIDE))
    parser.add_argument("--json")
    given = parser.parse_args(words)
    every = catalogue.cases(given.batch).values()
    known = {word for case in every for word in (case.name, case.operator)}
    for kind, names, there in (("case or operator", given.only, known), ("peer", given.peers, OUTSIDE)):
        for name in names:
            if name not in there:
                parser.error(f"there is no {kind} {name!r}; there are {', '.join(sorted(there))}")
    given.cases = [case for case in every if not given.only or {case.name, case.operator} & set(given.only)]
    return given


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


if __name__ == "__main__":
    raise SystemExit(main())
