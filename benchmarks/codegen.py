"""How good the generated code is, without any search.

hand       given schedules against peers and the FMA peak, on all threads and on one
default    the default schedule over the catalogue at batch 1
memory     operators limited by memory bandwidth, against peers and NumPy
overhead   starting a parallel region; a call from Python; from a definition to something callable

python benchmarks/codegen.py --only hand,memory --quick --json codegen.json
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import tensorsmith as ts
from call_overhead import call_overhead
from contest import Settings, contest, quiet_machine
from formulations import case_of
from frameworks import FRAMEWORKS
from report import Report
from rows import Row
from schedules import Schedule, hand_schedules
from tensorsmith.build import build
from tensorsmith.ops import catalogue
from tensorsmith.runtime.device import measure_peak
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import measure_region_overhead
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.host import thread_count
from tensorsmith.targets.target import native

_QUICK = ("matmul-512", "conv-1x1-56", "conv-3x3-14")


def hand(report: Report, settings: Settings, quick: bool) -> None:
    counts = sorted({settings.threads, 1}, reverse=True)
    schedules = {threads: _schedules(threads) for threads in counts}
    for name, threads in itertools.product(schedules[1], counts):
        if not quick or name in _QUICK:
            title, workload, candidate = schedules[threads][name]
            entry = contest(case_of(title), workload, _builder(candidate), replace(settings, threads=threads))
            report.add("hand", f"{name} on {threads}", entry)


def default(report: Report, settings: Settings, quick: bool) -> None:
    cases = list(catalogue.cases(1).values())
    for case in cases[::4] if quick else cases:
        report.add("default", case.name, contest(case, case.workload(), _compiler(case), settings))


def memory(report: Report, settings: Settings, quick: bool) -> None:
    bandwidth = measure_peak()["bytes"]
    settings = replace(settings, frameworks=(*settings.frameworks, "numpy"))
    cases = list(catalogue.memory_bound().values())
    for case in cases[::2] if quick else cases:
        workload = case.workload()
        entry = contest(case, workload, _compiler(case), settings)
        touched = [*workload.inputs, *(workload.buffers[name] for name in workload.outputs)]
        bytes_per_second = sum(buffer.bytes for buffer in touched) / min(entry["seconds"].values())
        entry["share_of_bandwidth"] = bytes_per_second / bandwidth  # of whoever is fastest
        report.add("memory", case.name, entry)


def overhead(report: Report, settings: Settings, quick: bool) -> None:
    rounds = 2 if quick else 10
    seconds = min(measure_region_overhead(settings.threads) for _ in range(rounds))
    report.add("overhead", f"region on {settings.threads}", {"total": seconds})
    for name, entry in call_overhead(settings).items():
        report.add("overhead", name, entry)
    for name, (title, _, candidate) in _schedules(settings.threads).items():
        if title.startswith("C2D"):
            entries = [_build_times(title, candidate) for _ in range(rounds)]
            report.add("overhead", f"build {name}", min(entries, key=lambda entry: entry["total"]))


def _build_times(title: str, candidate: Candidate) -> Row:
    """Seconds from a definition with its schedule to a callable, and of LLVM's part by step."""
    case = case_of(title)
    start = perf_counter()
    case.workload()
    defined = perf_counter()
    executable = build(candidate)
    end = perf_counter()
    times = executable.build_seconds
    return {
        "total": end - start,
        "define": defined - start,
        "lower+generate": end - defined - sum(times.values()),
        **times,
    }


def _schedules(threads: int) -> dict[str, Schedule]:
    return hand_schedules(native().with_facts(cores=threads))


def _builder(candidate: Candidate) -> Callable[[], Executable]:
    return lambda: build(candidate)


def _compiler(case: catalogue.Case) -> Callable[[], Executable]:
    return lambda: ts.compile(case.tensors())


SECTIONS = {"hand": hand, "default": default, "memory": memory, "overhead": overhead}


def main() -> int:
    arguments = _arguments()
    settings = Settings(
        threads=arguments.threads,
        seconds=arguments.timing or (0.5 if arguments.quick else 5.0),
        frameworks=tuple(arguments.peers.split(",")),
        patience=arguments.patience,
    )
    report = Report()
    report.begin()
    try:
        with quiet_machine():
            for section in arguments.only.split(","):
                SECTIONS[section](report, settings, arguments.quick)
                report.print(section)
    finally:
        report.write(arguments.json)
    return 1 if report.errors else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer cases, less time for each")
    parser.add_argument("--json", metavar="FILE", help="where to write the figures")
    parser.add_argument("--threads", type=int, default=thread_count())
    parser.add_argument("--timing", type=float, help="seconds of timing per case")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a quiet machine, per case")
    parser.add_argument("--peers", default=",".join(FRAMEWORKS), help=f"of {','.join(FRAMEWORKS)} (default: all)")
    arguments = parser.parse_args()
    for kind, names, known in (("section", arguments.only, SECTIONS), ("peer", arguments.peers, FRAMEWORKS)):
        unknown = [name for name in names.split(",") if name not in known]
        if unknown:
            parser.error(f"there is no {kind} {unknown[0]!r}; there are {', '.join(known)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
