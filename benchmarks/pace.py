"""How many candidates a whole search measures in a second, and where its time goes.

    python benchmarks/pace.py [--cases GMM-1-b1,C2D-2-b1,...] [--network] [--trials 128] [--repeat 1] [--json FILE]

Each case is tuned as `ts.tune` does it, from nothing, without stopping early. The seconds are all of a run, from the call to the
result: processes are started, the reference is computed, the finalists are compared and the winner is compiled in them. The shares
are of these seconds, as this process spends them:

    search     the policy looks for candidates, while the workers build the last ones
    model      the cost model learns
    timing     one program runs, and nothing else
    waiting    for builds and checks that the search did not hide
    final      the best few are built again and race against the default schedule, however many trials there were
    rest       starting, a final between formulations, compiling the winner, storing

`searching` is how many trials there are in a second of the first four: what a longer search comes close to.

`CPU` is what all processes together spent on a trial. It is the figure to compare on a machine that others use: two cores that are
never idle would measure two divided by it in a second.

`builds` is how many seconds the workers spent on building and checking, all of them together: with two of them, at most twice the
seconds of the run. `--network` tunes the small network of `tensorsmith demo` instead, whose kernels take microseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import tensorsmith as ts
from rows import geometric_mean
from tensorsmith.cli import smallnet
from tensorsmith.ops import catalogue

CASES = "GMM-1-b1,GMM-2-b1,C2D-2-b1,C1D-2-b1,DEP-3-b1,GRP-3-b1,NRM-1-b1,TBS-1-b1"  # all below a millisecond on two cores


@dataclass(frozen=True)
class Pace:
    """Of one run: its trials and seconds, where they went, and the best time."""

    trials: int
    seconds: float
    search: float
    model: float
    timing: float
    waiting: float
    final: float
    builds: float
    cpu: float = 0.0  # seconds of all processes
    best: float | None = None

    @property
    def trials_per_second(self) -> float:
        return self.trials / self.seconds

    @property
    def searching(self) -> float:
        """Trials in a second, without what comes before and after."""
        return self.trials / (self.search + self.model + self.timing + self.waiting)

    @property
    def rest(self) -> float:
        return max(0.0, self.seconds - self.search - self.model - self.timing - self.waiting - self.final)

    @staticmethod
    def of(progress: Any, seconds: float, cpu: float) -> Pace:
        """From what a run says last."""
        t = progress.times
        best = getattr(progress, "best_seconds", None)
        return Pace(progress.trials, seconds, t["search"], t["model"], t["run"], t["wait"], t["final"], t["build"], cpu, best)


def pace(computation: Any, trials: int, seed: int) -> Pace:
    last: list[Any] = []
    begun, used = time.perf_counter(), _cpu()
    ts.tune(computation, trials=trials, seed=seed, early_stop=False, on_progress=last.append)
    return Pace.of(last[-1], time.perf_counter() - begun, _cpu() - used)


def _cpu() -> float:
    """Seconds of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def table(found: dict[str, Pace]) -> Table:
    parts = ("search", "model", "timing", "waiting", "final", "rest")
    shown = Table("case", "trials/s", "searching", "trials", "seconds", *parts, "builds", "CPU")
    for name, p in found.items():
        shares = [f"{part / p.seconds:.0%}" for part in (p.search, p.model, p.timing, p.waiting, p.final, p.rest)]
        shown.add_row(
            name,
            f"{p.trials_per_second:.1f}",
            f"{p.searching:.1f}",
            str(p.trials),
            f"{p.seconds:.1f}",
            *shares,
            f"{p.builds:.1f} s",
            f"{p.cpu / p.trials * 1e3:.0f} ms",
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--network", action="store_true", help="the network of the demo instead")
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, with other seeds")
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args(arguments)
    found: dict[str, Pace] = {}
    for seed in range(given.repeat):
        again = f" #{seed + 1}" if seed else ""
        if given.network:
            with tempfile.TemporaryDirectory() as folder:
                smallnet.write(Path(folder) / "smallnet.onnx")
                found[f"network{again}"] = pace(ts.load(Path(folder) / "smallnet.onnx"), given.trials, seed)
            continue
        for name in given.cases.split(","):
            found[name + again] = pace(catalogue.get(name).workload(), given.trials, seed)
    Console(width=120).print(table(found))
    whole, searching = (geometric_mean(rates) for rates in zip(*((p.trials_per_second, p.searching) for p in found.values())))
    print(f"geometric mean: {whole:.1f} trials per second of {len(found)} whole runs, {searching:.1f} while they search")
    if given.json:
        Path(given.json).write_text(json.dumps({name: asdict(p) | {"rest": p.rest} for name, p in found.items()}, indent=1))


if __name__ == "__main__":
    main()
