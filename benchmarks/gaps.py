"""Where the default schedule is behind what was measured: the workloads of a record file, the widest gap first.

    python benchmarks/gaps.py records.db [--least 1.1] [--seconds 0.2] [--json FILE]     default schedule and best program in turns
    python benchmarks/gaps.py records.db --save FILE                                     the default schedules of this code
    python benchmarks/gaps.py records.db --against FILE                                  they and those of that file in turns

The records are those of `collect.py`, or of any search. Workloads whose best program was not ahead by `--least` when measured
are passed over; the others are timed again, in one process, in an order drawn anew for every round. A gap is room that the default
schedule leaves: its program, and the best one, say why (`--show KEY`).

`--save` and `--against` show what a change of the default schedule is worth: save with the code before it, compare with the code
after it. Workloads whose default schedule is the same are passed over.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from contest import Settings, hold, quiet_machine
from ours import kernel
from rows import geometric_mean
from tensorsmith.backends import backend_of
from tensorsmith.build import build
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.referee import Contestant
from tensorsmith.program.lower import lower
from tensorsmith.records.keys import Timing, candidate_key
from tensorsmith.records.store import Store
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.pool import with_threads
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

DEFAULT, OTHER = "default", "other"


class Case(NamedTuple):
    """A workload by what people call it, its default schedule and the program beside it."""

    name: str
    default: Candidate
    other: Candidate


def workloads(store: Store) -> Iterator[tuple[str, Workload]]:
    for summary in store.workloads():
        yield f"{summary.title} {summary.workload.key[:8]}", summary.workload


def behind(store: Store, least: float) -> Iterator[Case]:
    """The workloads whose best program was ahead of the default schedule by that, or whose default schedule was not measured.

    Of each candidate the last trial counts.
    """
    timing = Timing("warm", native().cores)
    for name, workload in workloads(store):
        default = backend_of(native()).default_candidate(workload, native())
        last = {r.key: r for r in store.history(workload, native(), timing) if r.seconds is not None}
        best, known = min(last.values(), key=lambda r: r.seconds or 0.0, default=None), last.get(candidate_key(default))
        if best is None or best is known:
            continue
        if known is None or (known.seconds or 0.0) >= least * (best.seconds or 0.0):
            yield Case(name, default, best.candidate)


def saved(store: Store) -> dict[str, object]:
    """The default schedules by the keys of their workloads."""
    return {w.key: backend_of(native()).default_candidate(w, native()).to_json() for _, w in workloads(store)}


def changed(store: Store, before: Mapping[str, Mapping[str, object]]) -> Iterator[Case]:
    """The workloads whose default schedule is another one than before."""
    for name, workload in workloads(store):
        default = backend_of(native()).default_candidate(workload, native())
        if workload.key in before:
            other = Candidate.from_json(workload, before[workload.key])
            if other != default:
                yield Case(name, default, other)


def timed(case: Case, settings: Settings) -> dict[str, float]:
    """Seconds of both, in turns."""
    inputs = {n: aligned_copy(array) for n, array in random_inputs(case.default.sketch.workload).items()}
    with with_threads(settings.threads):
        made = {DEFAULT: build(case.default), OTHER: build(case.other)}
        contestants: dict[str, Contestant] = {who: kernel(one, inputs, settings.threads).alone for who, one in made.items()}
        found = hold(contestants, tuple(contestants), case.name, settings)
    return {who: found[who].best for who in made}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", help="file of records")
    parser.add_argument("--least", type=float, default=1.1, help="by how much the best has to be ahead in the file")
    parser.add_argument("--seconds", type=float, default=0.2, help="of timing per workload")
    parser.add_argument("--save", metavar="FILE", help="write the default schedules of this code, and time nothing")
    parser.add_argument("--against", metavar="FILE", help="time default schedules against those of this file")
    parser.add_argument("--show", metavar="KEY", help="print both programs of the workloads whose key begins so, and time nothing")
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args(words)
    if not Path(given.database).is_file():
        parser.error(f"there is no file {given.database}")
    settings, ratios = Settings(native().cores, given.seconds, ()), {}
    with quiet_machine(), Store.open(given.database) as store:
        if given.save:
            Path(given.save).write_text(json.dumps(saved(store)))
            return
        cases = changed(store, json.loads(Path(given.against).read_text())) if given.against else behind(store, given.least)
        for case in cases:
            if given.show:
                if case.default.sketch.workload.key.startswith(given.show):
                    print(case.name, lower(case.default), "beside", lower(case.other), sep="\n\n")
                continue
            try:
                seconds = timed(case, settings)
            except (Refusal, UserError) as problem:
                print(f"{case.name}: left out: {problem}")
                continue
            ratios[case.name] = seconds[OTHER] / seconds[DEFAULT], seconds[DEFAULT]
    what = "of that of the file" if given.against else "of the best program"
    for name, (speed, took) in sorted(ratios.items(), key=lambda one: one[1]):
        print(f"{speed:6.3f} {took * 1e6:10.1f} us  {name}")
    if ratios:
        mean = geometric_mean(speed for speed, _ in ratios.values())
        print(f"speed of the default schedule, {what}: geometric mean {mean:.3f} of {len(ratios)} workloads")
    if given.json:
        Path(given.json).write_text(json.dumps({n: {"speed": s, "seconds": t} for n, (s, t) in ratios.items()}, indent=1))


if __name__ == "__main__":
    main()
