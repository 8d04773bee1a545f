"""What the task scheduler is worth: the gradient against round-robin, at equal trials, on a network.

    python benchmarks/scheduler.py [--model mobilenet_v2] [--trials 512] [--seeds 3] [--json FILE]

The figure is the estimated latency of the whole network: the sum over its tasks of calls times best seconds, after so many
trials. Both begin with the same warm-up, of all tasks. The two take turns, seed by seed, so that what disturbs the machine disturbs
both; nothing is shared between the runs. `trials to match` is how many trials the gradient needs for what round-robin has at
the end. These are estimates, made minutes apart. `measured` is the whole network as each run left it, all of them timed side by
side in the end: where the two disagree, believe this one.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence

import numpy as np
from rich.table import Table

import models
import tensorsmith as ts
from harness import compare, geometric_mean
from report import DISTURBED, Row, console, write_json
from tensorsmith.runtime.network import NetworkExecutable
from tensorsmith.search.scheduler import STRATEGIES, Schedule, Strategy
from tensorsmith.tune import NetworkProgress

SECONDS = 2.0  # of the final timing, for each executable
SHOWN = (0.25, 0.5, 0.75, 1.0)  # of the trials


class Curve:
    """The estimated latency over the trials of a run."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []
        self.first = self.seconds = 0.0

    def add(self, progress: NetworkProgress) -> None:
        self.seconds = progress.elapsed
        if progress.measured == progress.tasks:  # before that, it is not the latency of the whole
            self.first = progress.first[0]
            self.points.append((progress.trials, progress.latencies[0]))

    def at(self, trials: float) -> float | None:
        """Seconds of the network after so many trials; None during the warm-up."""
        return next((latency for n, latency in reversed(self.points) if n <= trials), None)

    def trials_to(self, latency: float) -> int | None:
        return next((n for n, reached in self.points if reached <= latency), None)


def run(model: ts.Model, strategy: Strategy, trials: int, seed: int) -> tuple[Curve, NetworkExecutable]:
    curve = Curve()
    schedule = Schedule(strategy, negligible=0.0)
    return curve, ts.tune(model, trials=trials, seed=seed, schedule=schedule, on_progress=curve.add)


def measure(executables: dict[str, NetworkExecutable], inputs: dict[str, np.ndarray]) -> dict[str, float]:
    """Seconds of each, in turns."""
    contestants = {name: functools.partial(executable.run, inputs) for name, executable in executables.items()}
    result = compare(contestants, seconds=SECONDS * len(contestants), keep=contestants)
    if result.disturbed > DISTURBED:
        print(f"other processes ran during {result.disturbed:.0%} of the final timing", file=sys.stderr)
    return {name: timing.best for name, timing in result.timings.items()}


def row(curves: dict[Strategy, Curve], trials: int) -> Row:
    gradient, round_robin = (curves[s].at(trials) for s in STRATEGIES)
    entry: Row = {
        "trials": trials,
        "default_seconds": curves["gradient"].first,
        "seconds_searching": {s: c.seconds for s, c in curves.items()},
        "curve": {s: c.points for s, c in curves.items()},
        "latency": {s: {f"{share:.0%}": c.at(share * trials) for share in SHOWN} for s, c in curves.items()},
    }
    if gradient and round_robin:
        entry |= {"ratio_to_round_robin": round_robin / gradient, "trials_to_match": curves["gradient"].trials_to(round_robin)}
    return entry


def table(title: str, rows: dict[str, Row]) -> Table:
    result = Table(title=title, title_justify="left")
    shares = [f"{share:.0%}" for share in SHOWN]
    for heading in ("case", "strategy", "default", *shares, "ratio", "trials to match", "seconds", "measured", "ratio"):
        result.add_column(heading, justify="left" if heading in ("case", "strategy") else "right")
    for case, entry in rows.items():
        for strategy in STRATEGIES:
            ours = strategy == "gradient"
            result.add_row(
                case if ours else "",
                strategy,
                _ms(entry["default_seconds"]) if ours else "",
                *(_ms(entry["latency"][strategy][share]) for share in shares),
                _ratio(entry.get("ratio_to_round_robin")) if ours else "",
                str(entry.get("trials_to_match") or "-") if ours else "",
                f"{entry['seconds_searching'][strategy]:.0f}",
                _ms(entry["measured"][strategy]),
                _ratio(entry["measured_ratio"]) if ours else "",
            )
    estimated, measured = ([e[key] for e in rows.values() if key in e] for key in ("ratio_to_round_robin", "measured_ratio"))
    result.add_section()
    means = [_ratio(geometric_mean(ratios)) if ratios else "-" for ratios in (estimated, measured)]
    result.add_row("geometric mean", f"of {len(rows)}", "", *("" for _ in shares), means[0], "", "", "", means[1])
    return result


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def _ms(seconds: float | None) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The task scheduler against round-robin.")
    parser.add_argument("--model", default="mobilenet_v2", help="a network of models.py")
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args(arguments)
    if given.trials < 1 or given.seeds < 1:
        parser.error("--trials and --seeds are 1 or more")
    found = models.get(given.model)
    model = ts.load(found.path)
    rows: dict[str, Row] = {}
    executables: dict[str, NetworkExecutable] = {}
    for seed in range(given.seeds):
        curves: dict[Strategy, Curve] = {}
        for strategy in STRATEGIES if seed % 2 == 0 else STRATEGIES[::-1]:
            curves[strategy], executables[f"{strategy} {seed}"] = run(model, strategy, given.trials, seed)
            print(f"seed {seed}, {strategy}: {_ms(curves[strategy].at(given.trials))}", file=sys.stderr)
        rows[f"{given.model}, seed {seed}"] = row(curves, given.trials)
    seconds = measure(executables, found.inputs)
    for seed, entry in enumerate(rows.values()):
        entry["measured"] = {strategy: seconds[f"{strategy} {seed}"] for strategy in STRATEGIES}
        entry["measured_ratio"] = entry["measured"]["round-robin"] / entry["measured"]["gradient"]
    console().print(table(f"{given.model}: latency after shares of {given.trials} trials", rows))
    if given.json:
        write_json(given.json, rows)


if __name__ == "__main__":
    main()
