"""`tensorsmith tasks`: what a model asks of the tuner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.computation import Loading, load_fixed
from tensorsmith.cli.executables import check_database, compile_model
from tensorsmith.cli.options import AsJson, DrawSeed, ModelFile, Outputs, Records, Shapes, TargetName
from tensorsmith.graph.model import Model
from tensorsmith.graph.tasks import Partition
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Record, Store, Timing
from tensorsmith.show.line import many
from tensorsmith.targets.target import given_or_native


@dataclass(frozen=True)
class TaskLine:
    """A task of a model. What was not asked for, or is not known, is None."""

    task: int  # its number, as `sketches --task` takes it
    key: str  # of its workload, as `records FILE best` takes it
    name: str
    shapes: str
    calls: int
    flops: int  # of one call
    share_of_flops: float | None
    tunable: bool
    best_seconds: float | None = None  # of the best record on the machine, one call
    seconds: float | None = None  # of all calls in the running model
    share_of_seconds: float | None = None
    schedule: str | None = None  # where that of the running model came from: record, default or plain


@dataclass(frozen=True)
class TaskList:
    """The tasks of a model; `flops` is that of all calls."""

    model: str
    calls: int
    flops: int
    tasks: tuple[TaskLine, ...]


def tasks(
    model: ModelFile,
    db: Records = None,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Compile and run the model too, and show where its time goes.")
    ] = False,
    target: TargetName = None,
    json: AsJson = False,
) -> None:
    """Lists the tasks of a model: the distinct computations, how often each is called, and what is known of its speed.

    With --db the best record of each task on this machine, or on the --target; with --profile the time of its calls inside the
    compiled model.
    """
    with show.apart(json):
        loaded = load_fixed(model, Loading.of(shape, outputs, draw_seed))
        if db is not None:
            check_database(db)
        found = tasks_of(loaded, db, profile, target)
    show.answer(found, json, lambda found: show_tasks(found, records=db is not None, profile=profile))


def tasks_of(model: Model, db: str | None = None, profile: bool = False, target: str | None = None) -> TaskList:
    """What there is to tune, with the best records of a file, and with the times of a profile."""
    partition = model.partition
    each = [flops(task.workload) for task in partition.tasks]
    total = sum(n * task.weight for n, task in zip(each, partition.tasks))
    lines = [
        TaskLine(
            task=number,
            key=task.workload.key,
            name=task.name,
            shapes=shapes_of(task.workload),
            calls=task.weight,
            flops=n,
            share_of_flops=n * task.weight / total if total else None,
            tunable=task.tunable,
        )
        for number, (task, n) in enumerate(zip(partition.tasks, each))
    ]
    if db is not None:
        lines = [replace(line, best_seconds=r.seconds if r else None) for line, r in zip(lines, _records(partition, db, target))]
    if profile:
        lines = _profiled(lines, model, db, target)
    return TaskList(model.name, len(partition.calls), total, tuple(lines))


def show_tasks(found: TaskList, records: bool = False, profile: bool = False) -> None:
    """The table, and a line about the whole."""
    columns = ["task", "name", "shapes", "calls", "MFLOP", "share of FLOPs"]
    columns += ["best record", "GFLOP/s"] if records else []
    columns += ["time of all calls", "share of time", "GFLOP/s there", "schedule"] if profile else []
    rows = []
    for t in found.tasks:
        row = [t.task, t.name, t.shapes, t.calls, f"{t.flops / 1e6:,.2f}", show.share(t.share_of_flops)]
        if records:
            row += [show.time(t.best_seconds) if t.best_seconds or t.tunable else "not tuned", show.rate(t.flops, t.best_seconds)]
        if profile:
            row += [show.time(t.seconds), show.share(t.share_of_seconds), show.rate(t.flops * t.calls, t.seconds), t.schedule or ""]
        rows.append(row)
    show.table(
        columns, rows, ("name", "shapes", "schedule"), ("share of FLOPs", "shapes", "GFLOP/s", "GFLOP/s there", "schedule", "MFLOP")
    )
    tunable = sum(t.tunable for t in found.tasks)
    show.prose(
        f"{found.model}: {many(len(rows), 'task')} ({tunable} to tune), {many(found.calls, 'call')}, {found.flops / 1e6:,.1f} MFLOP"
    )


def shapes_of(workload: Workload) -> str:
    """`1x56x56x64, 3x3x64x64 -> 1x56x56x64`; vectors and scalars that are read are left out."""
    buffers = workload.buffers
    read = [show.shape(b.shape) for b in workload.inputs if len(b.shape) > 1]
    return f"{', '.join(read)} -> {', '.join(show.shape(buffers[n].shape) for n in workload.outputs)}"


def _records(partition: Partition, db: str, target: str | None) -> list[Record | None]:
    """The fastest record of each task, in whatever formulation."""
    machine = given_or_native(target)
    timing = Timing("warm", machine.cores)
    with Store.open(db, read_only=True) as store:
        found = [[store.best(f.workload, machine, timing) for f in t.formulations] for t in partition.tasks]
    return [min((r for r in some if r and r.seconds), key=lambda r: r.seconds or 0.0, default=None) for some in found]


def _profiled(lines: list[TaskLine], model: Model, db: str | None, target: str | None) -> list[TaskLine]:
    """With time, share and schedule of each task's calls in the running model."""
    profile = compile_model(model, db, target).profile()
    seconds = [0.0] * len(lines)
    schedules = [""] * len(lines)
    for call, step in zip(model.partition.calls, profile.steps):  # copies of outputs come behind the calls
        seconds[call.task] += step.seconds
        schedules[call.task] = step.schedule
    total = profile.seconds or 1.0
    return [
        replace(line, seconds=s, share_of_seconds=s / total, schedule=schedule)
        for line, s, schedule in zip(lines, seconds, schedules)
    ]
