"""Every kernel of whole networks with its bound and its share of it, the worst first.

    python benchmarks/bounds.py [--models resnet50,bert_base,...] [--batch 1] [--db tune.db] [--json FILE] [--all]

The bound is that of `bound.py`: arithmetic at the FMA peak, bytes at the bandwidth of the level that holds them, a call; all
measured just before the network. Where a network's constants do not fit the last cache, they come from memory every time.
Shown are the kernels that hold 95 % of a network's time, and with `--all` the others. What they lose is their time less their
bound, as a share of the whole network's time.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import about
import models
import ours_networks
import tensorsmith as ts
from bound import Rates, bound, measure_rates
from contest import quiet_machine
from report import RUN
from rows import geometric_mean
from tensorsmith.compile import usual_cache
from tensorsmith.graph.tasks import Task
from tensorsmith.lang.flops import flops
from tensorsmith.measure.bench import array_bytes
from tensorsmith.runtime.profile import KernelTime, Profile
from tensorsmith.targets.target import native

HELD = 0.95  # of the time
NEAR = 0.9  # of the bound


@dataclass(frozen=True)
class Kernel:
    """One kernel of a network: its calls, seconds of all of them, and of their bounds."""

    network: str
    name: str
    calls: int
    seconds: float
    bound: float
    limit: str
    share_of_time: float
    schedule: str

    @property
    def share(self) -> float:
        return self.bound / self.seconds if self.seconds else 0.0

    @property
    def lost(self) -> float:
        """Of the network's time, what this kernel would save at its bound."""
        return max(0.0, 1 - self.share) * self.share_of_time


def kernels(name: str, model: ts.Model, profile: Profile, rates: Rates) -> list[Kernel]:
    """Those of a profile that are tasks, the costliest first; copies are none."""
    tasks: dict[str, list[Task]] = {}
    for task in model.tasks():
        tasks.setdefault(task.name, []).append(task)
    streamed = usual_cache([model], native()) != "warm"
    found = []
    for kernel in profile.kernels:
        same = tasks.get(kernel.name) or tasks.get(kernel.title)
        if same:
            least = bound(_task_of(kernel, same).workload, rates, streamed)
            found.append(
                Kernel(
                    name, kernel.title, kernel.calls, kernel.seconds, kernel.calls * least.seconds, least.limit, kernel.share,
                    kernel.schedule,
                )
            )  # fmt: skip
    return found


def _task_of(kernel: KernelTime, same: Sequence[Task]) -> Task:
    """Of tasks of one name, which says what they give and not what they read: the one called, computing and moving as much."""

    def difference(task: Task) -> tuple[float, ...]:
        mine = (task.weight, flops(task.workload), array_bytes(task.workload))
        its = (kernel.calls, kernel.flops / kernel.calls, kernel.bytes / kernel.calls)
        return tuple(abs(a - b) for a, b in zip(mine, its))

    return min(same, key=difference)


def costly(found: Sequence[Kernel], held: float = HELD) -> list[Kernel]:
    """As many of the costliest as hold that share of the time."""
    chosen: list[Kernel] = []
    for kernel in sorted(found, key=lambda k: -k.seconds):
        if sum(k.share_of_time for k in chosen) >= held:
            break
        chosen.append(kernel)
    return chosen


def table(found: Sequence[Kernel]) -> Table:
    """The worst first: by what they lose."""
    result = Table(title="kernels by what they lose, the worst first", title_justify="left")
    for heading in ("network", "kernel", "calls", "us a call", "bound us", "limited by", "share", "of time", "lost", "schedule"):
        result.add_column(heading, justify="left" if heading in ("network", "kernel", "limited by", "schedule") else "right")
    for k in sorted(found, key=lambda k: -k.lost):
        result.add_row(
            k.network, k.name, str(k.calls), f"{k.seconds / k.calls * 1e6:,.1f}", f"{k.bound / k.calls * 1e6:,.1f}", k.limit,
            f"{k.share:.2f}", f"{k.share_of_time:.1%}", f"{k.lost:.1%}", k.schedule,
        )  # fmt: skip
    return result


def verdict(network: str, found: Sequence[Kernel]) -> str:
    """Of the kernels that hold most of the time."""
    chosen = costly(found)
    if not chosen:
        return f"{network}: no kernel is a task"
    near = sum(k.share >= NEAR for k in chosen)
    mean = geometric_mean(max(k.share, 1e-9) for k in chosen)
    whole = sum(k.bound for k in found) / sum(k.seconds for k in found)
    return (
        f"{network}: {len(chosen)} kernels hold {HELD:.0%} of the time; {near} of them at {NEAR:.0%} of their bound or more, "
        f"geometric mean {mean:.2f}; all kernels at their bounds would take {whole:.2f} of the time"
    )


def main(words: Sequence[str] | None = None) -> int:
    given = arguments(words)
    console = Console(width=190, soft_wrap=True)
    run = about.about()
    console.print(about.text(run), markup=False, highlight=False)
    found: dict[str, list[Kernel]] = {}
    with quiet_machine():
        for name in given.models:
            network = models.get(name, given.batch)
            model = ours_networks.load(network)
            executable = ts.compile(model, database=given.db)
            rates = measure_rates()
            found[name] = kernels(name, model, executable.profile(threads=native().cores, **network.inputs), rates)
            console.print(verdict(name, found[name]), markup=False, highlight=False)
            del executable
            gc.collect()
    console.print(table([k for mine in found.values() for k in (mine if given.all else costly(mine))]))
    if given.json:
        rows = {name: [{**asdict(k), "share": k.share, "lost": k.lost} for k in mine] for name, mine in found.items()}
        Path(given.json).write_text(json.dumps({RUN: run, **rows}, indent=1) + "\n", encoding="utf-8")
    return 0


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=tuple(models.MODELS), type=lambda text: tuple(filter(None, text.split(","))))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--db", help="record file; without one the default schedules")
    parser.add_argument("--json", help="write all kernels to this file")
    parser.add_argument("--all", action="store_true", help=f"show also kernels beyond {HELD:.0%} of the time")
    given = parser.parse_args(words)
    for name in given.models:
        if name not in models.MODELS:
            parser.error(f"there is no network {name!r}; there are {', '.join(models.MODELS)}")
    if given.db and not Path(given.db).is_file():
        parser.error(f"there is no file {given.db}")
    return given


if __name__ == "__main__":
    raise SystemExit(main())
