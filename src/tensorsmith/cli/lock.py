"""`tensorsmith lock` and `tensorsmith check-lock`: the same programs tomorrow, and whether they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.computation import Loading, load_model
from tensorsmith.cli.executables import compile_model
from tensorsmith.cli.options import AsJson, DrawSeed, Formulations, ModelFile, Outputs, Records, Shapes, Threads, Weights
from tensorsmith.compile import compile as compile_computation
from tensorsmith.compile import stored
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.locking import SAME, Check
from tensorsmith.locking import check as compare
from tensorsmith.locking import lock as lock_of
from tensorsmith.locking import read as read_lock
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.show.line import many
from tensorsmith.show.units import time

SUFFIX = ".lock"


@dataclass(frozen=True)
class Locked:
    """What `lock` wrote; `seconds` is the time of a call."""

    file: str
    model: str
    target: str
    kernels: int
    seconds: float


def lock(
    model: ModelFile,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Lock to write.", show_default="MODEL.lock")
    ] = None,
    db: Records = None,
    formulations: Formulations = ALL,
    weights: Weights = None,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Writes down which programs a model is compiled to, how long they take, and what they give.

    `ts.compile(model, lock=FILE)` builds just these programs, and `check-lock` says what differs.
    """
    with show.apart(json):
        file = output or Path(model).stem + SUFFIX
        loaded = _loaded(model, Loading.of(shape, outputs, draw_seed), weights)
        made = compile_model(loaded, db, None, formulations, None, threads)
        found = lock_of(made)
        found.write(file)
        locked = Locked(file, found.model, found.target.key, len(found.kernels), found.seconds)
    show.answer(locked, json, _show_locked)


def check_lock(
    model: ModelFile,
    lock: Annotated[str, typer.Argument(metavar="LOCK", help="A file that `tensorsmith lock` wrote.")],
    slower: Annotated[float, typer.Option(help="How many times the lock's time is still no slower.")] = 1.25,
    time: Annotated[bool, typer.Option("--time/--no-time", help="Whether times are compared, too.")] = True,
    formulations: Formulations = ALL,
    weights: Weights = None,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    json: AsJson = False,
) -> None:
    """Compiles a model by a lock, and says what got slower or different.

    The exit status is 0 where nothing did, and 1 otherwise. Options that decide what the model computes must be those of the lock.
    """
    if not slower >= 1:
        raise UserError(f"--slower is {slower:g}; give a factor of at least 1")
    with show.apart(json):
        held = read_lock(lock)
        loaded = _loaded(model, Loading.of(shape, outputs, draw_seed), weights)
        made = compile_computation(loaded, lock=lock, formulations=formulations)
        found = compare(made, held, slower, time)
    show.answer(found, json, _show_check)
    if not found.passed:
        raise typer.Exit(1)


def _loaded(file: str, given: Loading, weights: str | None) -> Model:
    loaded = load_model(file, given)
    if isinstance(loaded, OpenModel):
        raise UserError(f"a lock is of fixed sizes: give {loaded.symbols[0]} one, as in --shape {loaded.symbols[0]}=8")
    return stored(loaded, weights)


def _show_locked(locked: Locked) -> None:
    show.say(f"{locked.file} written: {locked.model}, {many(locked.kernels, 'kernel')} for {locked.target}, {time(locked.seconds)}")


def _show_check(found: Check) -> None:
    rows: Sequence[tuple[object, ...]] = [(k.title, k.found, time(k.then), time(k.now)) for k in found.kernels if k.found != SAME]
    if rows:
        show.table(("kernel", "is", "then", "now"), rows, ("kernel", "is"))
    for name, (then, now) in found.versions.items():
        show.say(f"{name} was {then}, is {now}")
    for o in found.outputs:
        if not o.same:
            how = "was made of other inputs" if o.difference is None else f"differs, by {o.difference:.2g} of its largest element"
            show.say(f"output {o.name} {how}")
    same = sum(k.found == SAME for k in found.kernels)
    show.say(
        f"{found.model}: {same} of {many(len(found.kernels), 'kernel')} the same, {time(found.then)} then, {time(found.now)} now"
    )
    show.say("passed" if found.passed else "; ".join(["slower"] * found.slower + ["different"] * found.different))
