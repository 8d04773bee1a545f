"""What two searches of the same network found, against each other: for every task the best program of each record file.

    python benchmarks/fleet_quality.py fleet.db alone.db --model mobilenet_v2 [--seconds 1] [--json FILE]

The times in the files were taken at other hours, beside other work. So both programs are called again here, side by side in one
process, in an order drawn anew each round (`tensorsmith.measure.referee`). Above 1 the first file's program is the faster one;
where both are the same program it is 1. The last line has the ratio of the geometric means, and between which bounds it lies if the
tasks are drawn anew a thousand times (95 % of the draws).
"""

from __future__ import annotations

import argparse
import json
import random
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import models
import tensorsmith as ts
from ours import kernel, same_program
from ours_networks import load
from rows import geometric_mean
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.referee import compare
from tensorsmith.runtime.executable import Executable
from tensorsmith.targets.target import native

DRAWS = 1000


@dataclass(frozen=True)
class Quality:
    """Of one task. The ratio is that of the best times, the quartiles are over the rounds."""

    task: str
    weight: int  # how often the network calls it
    first_seconds: float
    second_seconds: float
    same: bool  # both files have the same program
    lower: float
    upper: float

    @property
    def ratio(self) -> float:
        return 1.0 if self.same else self.second_seconds / self.first_seconds


def quality(model: ts.Model, first: Path, second: Path, seconds: float = 1.0) -> list[Quality]:
    """Of all tasks that a search has something to choose for."""
    found = []
    for task in (t for t in model.tasks() if t.tunable):
        exes = [_compiled(task.workload, file) for file in (first, second)]
        inputs = random_inputs(task.workload, 0)
        ways = {name: kernel(exe, inputs, native().cores).alone for name, exe in zip(("first", "second"), exes)}
        compared = compare(ways, ours=("first",), seed=task.name, seconds=seconds)
        quartiles = compared.quartiles("first") or (1.0, 1.0)
        times = compared["first"].best, compared["second"].best
        found.append(Quality(task.name, task.weight, *times, same_program(*exes), *quartiles))
    return found


def _compiled(workload: Workload, file: Path) -> Executable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a task that got no trial has its default schedule
        return ts.compile(workload, database=file)


def spread(ratios: Sequence[float], draws: int = DRAWS) -> tuple[float, float, float]:
    """The geometric mean, and between what 95 % of those lie whose cases are drawn anew, with repetitions."""
    draw = random.Random(0)
    means = sorted(geometric_mean(draw.choices(ratios, k=len(ratios))) for _ in range(draws))
    return geometric_mean(ratios), means[draws // 40], means[-1 - draws // 40]


def show(rows: Sequence[Quality], names: tuple[str, str]) -> None:
    table = Table("task", "calls", f"{names[0]}, us", f"{names[1]}, us", "ratio", "quartiles of the rounds")
    for row in rows:
        times = f"{1e6 * row.first_seconds:.1f}", f"{1e6 * row.second_seconds:.1f}"
        rest = ("1", "the same program") if row.same else (f"{row.ratio:.2f}", f"{row.lower:.2f}-{row.upper:.2f}")
        table.add_row(row.task, str(row.weight), *times, *rest)
    Console().print(table)
    mean, low, high = spread([row.ratio for row in rows])
    print(
        f"{names[0]} to {names[1]}: ratio of the geometric means {mean:.3f} ({low:.3f}-{high:.3f}), {len(rows)} tasks, "
        f"{sum(row.same for row in rows)} with the same program; above 1 {names[0]} found the faster ones"
    )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--model", default="mobilenet_v2", help="a network of models.py")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing for each task")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    rows = quality(load(models.get(given.model)), given.first, given.second, given.seconds)
    show(rows, (given.first.stem, given.second.stem))
    if given.json:
        given.json.write_text(json.dumps({row.task: asdict(row) | {"ratio": row.ratio} for row in rows}, indent=1))


if __name__ == "__main__":
    main()
