"""What the task scheduler is worth: the gradient against round-robin, at equal trials, on a network.

    python benchmarks/scheduler.py [--model mobilenet_v2] [--trials 448] [--seeds 3] [--folder DIR] [--json FILE]

Every seed is one run of each strategy: same seed, same trials, a record file of its own, so nothing is shared between runs. They
take turns, and the order changes from seed to seed, so that what disturbs the machine disturbs both. Both begin with the same
warm-up of all tasks. The defaults take seven minutes or so.

`estimated` is the latency of the whole network by the search: the sum over its tasks of calls times best seconds; the runs are
minutes apart. `measured` is the whole network as each run left it, all of them timed side by side in the end: where the two
disagree, believe this one. `trials to match` is how many trials the gradient needs for what round-robin has at the end.

With `--folder` finished runs are kept there, and the same command again, after a Ctrl-C or a crash, does only what is missing. A
run that was not finished begins anew: a search that was interrupted has forgotten what its policy was about to do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import models
import tensorsmith as ts
from about import SEED
from ours_networks import contestant
from report import Report
from resume import ending_at_ctrl_c, write_whole
from rows import DISTURBED, Row
from tensorsmith.measure.referee import compare
from tensorsmith.runtime.executable import Executable
from tensorsmith.search.scheduler import STRATEGIES, Schedule, Strategy
from tensorsmith.tune import NetworkProgress

TRIALS = 448
SECONDS = 4.0  # of the final timing, for each executable
SHOWN = (0.5, 0.75, 1.0)  # of the trials
EQUAL = 0.01  # of a time: differences that two timings of the same network have, too

Inputs = dict[str, np.ndarray[Any, Any]]


@dataclass
class Curve:
    """The estimated latency over the trials of a run."""

    points: list[tuple[int, float]] = field(default_factory=list)
    first: float = 0.0  # with the default schedules
    seconds: float = 0.0  # of searching
    trials: int = 0

    def add(self, progress: NetworkProgress) -> None:
        self.seconds, self.trials = progress.elapsed, progress.trials
        if progress.measured == progress.tasks:  # before that, it is not the latency of the whole
            self.first = progress.first[0]
            self.points.append((progress.trials, progress.latencies[0]))

    def at(self, trials: float) -> float | None:
        """Seconds of the network after so many trials; None during the warm-up."""
        return next((latency for n, latency in reversed(self.points) if n <= trials), None)

    def trials_to(self, latency: float) -> int | None:
        return next((n for n, reached in self.points if reached <= latency), None)


class Run:
    """One search: its record file, and the curve beside it once it is finished."""

    def __init__(self, folder: Path, model: str, strategy: Strategy, trials: int, seed: int) -> None:
        self.strategy: Strategy = strategy
        self.trials, self.seed = trials, seed
        self._base = folder / f"{model}-{trials}-{strategy}-{seed}"

    @property
    def database(self) -> Path:
        return self._base.with_suffix(".db")

    @property
    def _finished(self) -> Path:
        return self._base.with_suffix(".json")

    def curve(self, model: ts.Model) -> Curve:
        """Of the finished run; searches if there is none yet."""
        if not self._finished.exists():
            self._search(model)
        return Curve(**json.loads(self._finished.read_text(encoding="utf-8")))

    def _search(self, model: ts.Model) -> None:
        for rest in self._base.parent.glob(f"{self.database.name}*"):  # of a run that was not finished
            rest.unlink()
        curve = Curve()
        schedule = Schedule(self.strategy, negligible=0.0)
        ts.tune(model, trials=self.trials, seed=self.seed, schedule=schedule, database=self.database, on_progress=curve.add)
        write_whole(self._finished, asdict(curve))

    def executable(self, model: ts.Model) -> Executable:
        """What the run left."""
        return ts.compile(model, database=self.database)


def runs(folder: Path, model: str, trials: int, seeds: int) -> Iterator[Run]:
    """In the order they are made."""
    for seed in range(seeds):
        for strategy in STRATEGIES if seed % 2 == 0 else STRATEGIES[::-1]:
            yield Run(folder, model, strategy, trials, seed)


def measure(executables: dict[str, Executable], inputs: Inputs) -> dict[str, float]:
    """Seconds of a call of each, side by side."""
    contestants = {name: contestant(name, executable, inputs).run for name, executable in executables.items()}
    result = compare(contestants, ours=contestants, seed=SEED, seconds=SECONDS * len(contestants))
    if result.disturbed > DISTURBED:
        print(f"{result.disturbed:.0%} of the slots of the final timing were disturbed: not to be believed", file=sys.stderr)
    return {name: timing.best for name, timing in result.timings.items()}


def row(curves: dict[Strategy, Curve], measured: dict[Strategy, float], trials: int) -> Row:
    """One seed."""
    gradient, round_robin = (curves[s].at(trials) for s in STRATEGIES)
    entry: Row = {
        "trials": {s: c.trials for s, c in curves.items()},
        "default_seconds": curves["gradient"].first,
        "seconds_searching": {s: c.seconds for s, c in curves.items()},
        "curve": {s: c.points for s, c in curves.items()},
        "estimated": {s: {f"{share:.0%}": c.at(share * trials) for share in SHOWN} for s, c in curves.items()},
        "measured": measured,
        "measured_ratio": measured["round-robin"] / measured["gradient"],
    }
    if gradient and round_robin:
        entry |= {"ratio_to_round_robin": round_robin / gradient, "trials_to_match": curves["gradient"].trials_to(round_robin)}
    return entry


def medians(rows: Sequence[Row]) -> dict[str, dict[Strategy, float]]:
    """Over the seeds, of each strategy: the latency estimated at the end, and the measured one."""
    last = f"{SHOWN[-1]:.0%}"
    found: dict[str, dict[Strategy, float]] = {
        "measured": {s: statistics.median(entry["measured"][s] for entry in rows) for s in STRATEGIES}
    }
    if all(entry["estimated"][s][last] for entry in rows for s in STRATEGIES):
        found["estimated"] = {s: statistics.median(entry["estimated"][s][last] for entry in rows) for s in STRATEGIES}
    return found


def table(title: str, rows: dict[str, Row]) -> Table:
    result = Table(title=title, title_justify="left")
    shares = [f"{share:.0%}" for share in SHOWN]
    left = ("case", "strategy")
    estimated = [f"estimated at {share}" for share in shares]
    for heading in (*left, "default", *estimated, "ratio", "trials to match", "trials", "seconds", "measured", "ratio"):
        result.add_column(heading, justify="left" if heading in left else "right", no_wrap=heading in left)
    for case, entry in rows.items():
        for strategy in STRATEGIES:
            ours = strategy == "gradient"
            result.add_row(
                case if ours else "",
                strategy,
                _ms(entry["default_seconds"]) if ours else "",
                *(_ms(entry["estimated"][strategy][share]) for share in shares),
                _ratio(entry.get("ratio_to_round_robin")) if ours else "",
                str(entry.get("trials_to_match") or "-") if ours else "",
                str(entry["trials"][strategy]),
                f"{entry['seconds_searching'][strategy]:.0f}",
                _ms(entry["measured"][strategy]),
                _ratio(entry["measured_ratio"]) if ours else "",
            )
    result.add_section()
    found = medians(list(rows.values()))
    gaps = [""] * (len(shares) - 1)
    for strategy in STRATEGIES:
        ours = strategy == "gradient"
        ratios = {k: _ratio(m["round-robin"] / m["gradient"]) if ours else "" for k, m in found.items()}
        times = {k: _ms(m[strategy]) for k, m in found.items()}
        estimate = (times.get("estimated", "-"), ratios.get("estimated", ""))
        name = f"median of {len(rows)}" if ours else ""
        result.add_row(name, strategy, "", *gaps, *estimate, "", "", "", times["measured"], ratios["measured"])
    return result


def verdict(rows: Sequence[Row]) -> str:
    """In a line for each kind of latency: how the medians compare, and on how many seeds the gradient is ahead, and equal."""
    lines = []
    keys = {"measured": "measured_ratio", "estimated": "ratio_to_round_robin"}
    for kind, of in medians(rows).items():
        ratios = [entry[keys[kind]] for entry in rows]
        ahead, equal = sum(r > 1 + EQUAL for r in ratios), sum(abs(r - 1) <= EQUAL for r in ratios)
        seeds = f"ahead on {ahead} and equal within {EQUAL:.0%} on {equal} of {len(rows)} seeds"
        ratio = of["round-robin"] / of["gradient"]
        lines.append(f"{kind}: the gradient is {ratio:.3f} times as fast as round-robin (medians), {seeds}")
    return "\n".join(lines)


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def _ms(seconds: float | None) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mobilenet_v2", help="a network of models.py")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", help="keeps the runs: the same command again does only what is missing")
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args(arguments)
    if given.trials < 1 or given.seeds < 1:
        parser.error("--trials and --seeds are 1 or more")
    report = Report()
    report.begin()
    found = models.get(given.model)
    model = ts.load(found.path, shapes={name: array.shape for name, array in found.inputs.items()})
    with ending_at_ctrl_c(given.folder), tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = _rows(list(runs(folder, given.model, given.trials, given.seeds)), model, found.inputs, given)
    report.sections["scheduler"] = rows
    report.console.print(table(f"{given.model}: latency after shares of {given.trials} trials", rows))
    print(verdict(list(rows.values())))
    report.write(given.json)


def _rows(made: Sequence[Run], model: ts.Model, inputs: Inputs, given: argparse.Namespace) -> dict[str, Row]:
    curves: dict[int, dict[Strategy, Curve]] = {}
    for run in made:
        curve = curves.setdefault(run.seed, {})[run.strategy] = run.curve(model)
        print(f"seed {run.seed}, {run.strategy}: {_ms(curve.at(given.trials))} estimated, {curve.seconds:.0f} s", file=sys.stderr)
    seconds = measure({f"{run.strategy} {run.seed}": run.executable(model) for run in made}, inputs)
    measured: dict[int, dict[Strategy, float]] = {n: {s: seconds[f"{s} {n}"] for s in STRATEGIES} for n in curves}
    return {f"{given.model}, seed {n}": row(curves[n], measured[n], given.trials) for n in curves}


if __name__ == "__main__":
    main()
