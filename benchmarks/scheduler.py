"""What the task scheduler is worth: the gradient against round-robin, at equal trials, on a network.

    python benchmarks/scheduler.py [--model mobilenet_v2] [--trials 512] [--seeds 3] [--json FILE]

The figure is the estimated latency of the whole network: the sum over its tasks of calls times best seconds, after so many
trials. Both begin with the same warm-up, of all tasks. The two take turns, seed by seed, so that what disturbs the machine disturbs
both; nothing is shared between the runs. `trials to match` is how many trials the gradient needs for what round-robin has at
the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import models
from harness import geometric_mean
from report import Row, console, write_json
from rich.table import Table

import tensorsmith as ts
from tensorsmith.search.scheduler import STRATEGIES, Schedule, Strategy
from tensorsmith.tune import NetworkProgress

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


def run(model: ts.Model, strategy: Strategy, trials: int, seed: int) -> Curve:
    curve = Curve()
    ts.tune(model, trials=trials, seed=seed, schedule=Schedule(strategy, negligible=0.0), on_progress=curve.add)
    return curve


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
    for heading in (
        "seed",
        "strategy",
        "default",
        *(f"{share:.0%} of trials" for share in SHOWN),
        "seconds",
        "ratio",
        "trials to match",
    ):
        result.add_column(heading, justify="left" if heading in ("seed", "strategy") else "right")
    for case, entry in rows.items():
        for strategy in STRATEGIES:
            latencies = [_ms(latency) for latency in entry["latency"][strategy].values()]
            against = [f"{entry.get('ratio_to_round_robin', float('nan')):.3f}", str(entry.get("trials_to_match") or "-")]
            took = f"{entry['seconds_searching'][strategy]:.0f}"
            more = against if strategy == "gradient" else ["", ""]
            result.add_row(case, strategy, _ms(entry["default_seconds"]), *latencies, took, *more)
    ratios = [entry["ratio_to_round_robin"] for entry in rows.values() if "ratio_to_round_robin" in entry]
    if ratios:
        result.add_section()
        result.add_row("geometric mean", f"of {len(ratios)}", *[""] * (len(SHOWN) + 2), f"{geometric_mean(ratios):.3f}", "")
    return result


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
    model = ts.load(models.get(given.model).path)
    rows: dict[str, Row] = {}
    for seed in range(given.seeds):
        order = STRATEGIES if seed % 2 == 0 else STRATEGIES[::-1]
        curves = {strategy: run(model, strategy, given.trials, seed) for strategy in order}
        rows[f"{given.model}, seed {seed}"] = row(curves, given.trials)
        ends = ", ".join(f"{strategy} {_ms(curve.at(given.trials))}" for strategy, curve in curves.items())
        print(f"{given.model} seed {seed}: {ends}", file=sys.stderr)
    console().print(table(f"{given.model}: estimated latency, {given.trials} trials", rows))
    if given.json:
        write_json(given.json, rows)


if __name__ == "__main__":
    main()
