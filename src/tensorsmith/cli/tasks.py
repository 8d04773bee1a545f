"""`tensorsmith tasks`: what a model asks of the tuner."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.computation import load_fixed
from tensorsmith.cli.executables import check_database, compile_model
from tensorsmith.cli.options import ModelFile, Records, Shapes
from tensorsmith.graph.model import Model
from tensorsmith.graph.tasks import Partition
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Record, Store, Timing
from tensorsmith.targets.target import native


def tasks(
    model: ModelFile,
    db: Records = None,
    shape: Shapes = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Compile and run the model too, and show where its time goes.")
    ] = False,
) -> None:
    """Lists the tasks of a model: the distinct computations, how often each is called, and what is known of its speed.

    With --db the best record of each task on this machine; with --profile the time of its calls inside the compiled model.
    """
    loaded = load_fixed(model, shape or ())
    if db is not None:
        check_database(db)
    show_tasks(loaded, db, profile)


def show_tasks(model: Model, db: str | None = None, profile: bool = False) -> None:
    """The table, and a line about the whole."""
    partition = model.partition
    each = [flops(task.workload) for task in partition.tasks]
    total = sum(n * task.weight for n, task in zip(each, partition.tasks))
    columns = ["task", "operators", "shapes", "calls", "MFLOP", "share of FLOPs"]
    rows: list[list[object]] = [
        [
            number,
            task.name,
            shapes_of(task.workload),
            task.weight,
            f"{n / 1e6:,.2f}",
            f"{n * task.weight / total:.1%}" if total else "-",
        ]
        for number, (task, n) in enumerate(zip(partition.tasks, each))
    ]
    if db is not None:
        columns += ["best record", "GFLOP/s"]
        for row, task, record, n in zip(rows, partition.tasks, _records(partition, db), each):
            seconds = record.seconds if record else None
            row += [show.time(seconds) if record or task.tunable else "not tuned", show.rate(n, seconds)]
    if profile:
        columns += ["time of all calls", "share of time", "GFLOP/s there", "schedule"]
        for row, cells in zip(rows, _profile(model, db, each)):
            row += cells
    show.table(columns, rows, ("operators", "shapes", "schedule"))
    tunable = sum(task.tunable for task in partition.tasks)
    show.say(f"{model.name}: {len(rows)} tasks ({tunable} to tune), {len(partition.calls)} calls, {total / 1e6:,.1f} MFLOP")


def shapes_of(workload: Workload) -> str:
    """`1x56x56x64, 3x3x64x64 -> 1x56x56x64`; vectors and scalars that are read are left out."""
    buffers = workload.buffers
    read = [show.shape(b.shape) for b in workload.inputs if len(b.shape) > 1]
    return f"{', '.join(read)} -> {', '.join(show.shape(buffers[n].shape) for n in workload.outputs)}"


def _records(partition: Partition, db: str) -> list[Record | None]:
    """The fastest record of each task, in whatever formulation."""
    target = native()
    timing = Timing("warm", target.cores)
    with Store.open(db, read_only=True) as store:
        found = [[store.best(f.workload, target, timing) for f in t.formulations] for t in partition.tasks]
    return [min((r for r in some if r and r.seconds), key=lambda r: r.seconds or 0.0, default=None) for some in found]


def _profile(model: Model, db: str | None, each: list[int]) -> list[list[object]]:
    """Time, share, rate and schedule of each task's calls."""
    partition = model.partition
    profile = compile_model(model, db).profile()
    seconds = [0.0] * len(each)
    schedules = [""] * len(each)
    for call, step in zip(partition.calls, profile.steps):  # copies of outputs come behind the calls
        seconds[call.task] += step.seconds
        schedules[call.task] = step.schedule
    total = profile.seconds or 1.0
    return [
        [show.time(s), f"{s / total:.1%}", show.rate(n * task.weight, s), schedule]
        for s, n, task, schedule in zip(seconds, each, partition.tasks, schedules)
    ]
