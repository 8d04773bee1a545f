"""`tensorsmith sketches`: the sketches of a workload, as loops with holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from tensorsmith import backends
from tensorsmith.cli import show
from tensorsmith.cli.computation import Loading, load_any
from tensorsmith.cli.options import AsJson, DrawSeed, Outputs, Shapes, TargetName
from tensorsmith.errors import UserError
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.lang.workload import Workload
from tensorsmith.show.line import many
from tensorsmith.targets.target import given_or_native


@dataclass(frozen=True)
class NumberedSketch:
    number: int
    text: str


@dataclass(frozen=True)
class Derived:
    """The sketches of a workload, or the one that was asked for; `count` is how many there are."""

    workload: str
    key: str
    count: int
    sketches: tuple[NumberedSketch, ...]


def sketches(
    computation: Annotated[
        str,
        typer.Argument(help="A workload of the catalogue (C2D-3-b1), a Python file that defines one, or a model with --task."),
    ],
    task: Annotated[
        int | None, typer.Option(min=0, help="Which task of the model, counted from 0 as in `tensorsmith tasks MODEL`.")
    ] = None,
    rules: Annotated[
        str, typer.Option(metavar="NAME", help="The space: default, ansor, or rules of your own (module:Name, file.py:Name).")
    ] = "default",
    only: Annotated[int, typer.Option(help="Show just this one, counted from 0.", show_default="all")] = -1,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    target: TargetName = None,
    json: AsJson = False,
) -> None:
    """Shows the sketches that the rules derive for a workload, or for a task of a model."""
    with show.apart(json):
        workload = _workload(computation, task, Loading.of(shape, outputs, draw_seed))
        found = backends.sketches(workload, rules, given_or_native(target))
        if only >= len(found):
            raise UserError(f"{computation} has {len(found)} sketches, counted from 0; there is no {only}")
        chosen = tuple(NumberedSketch(n, str(sketch)) for n, sketch in enumerate(found) if only in (-1, n))
    show.answer(Derived(str(workload), workload.key, len(found), chosen), json, _show)


def _show(derived: Derived) -> None:
    show.say(derived.workload)
    for sketch in derived.sketches:
        show.say(f"\n--- sketch {sketch.number} of {derived.count}")
        show.say(sketch.text)


def _workload(computation: str, task: int | None, given: Loading) -> Workload:
    loaded = load_any(computation, given)
    if isinstance(loaded, Workload):
        if task is not None:
            raise UserError(f"--task {task}: {computation} is a workload; only a model has tasks")
        return loaded
    if isinstance(loaded, OpenModel):
        raise UserError(f"{', '.join(loaded.symbols)} must have one size here: --shape {loaded.symbols[0]}=8")
    tasks = loaded.tasks()
    if task is None or task >= len(tasks):
        problem = "choose one with --task" if task is None else f"there is no {task}"
        raise UserError(
            f"{computation} has {many(len(tasks), 'task')}, counted from 0; {problem} "
            f"(`tensorsmith tasks {computation}` lists them)"
        )
    return tasks[task].workload
