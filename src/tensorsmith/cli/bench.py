"""`tensorsmith bench`: a model side by side with other systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from tensorsmith.cli import peers, show
from tensorsmith.cli.arrays import check_writable, inputs_for
from tensorsmith.cli.computation import is_model, load_model
from tensorsmith.cli.executables import Kernels, executable_of
from tensorsmith.cli.options import AsJson, Inputs, ModelOrExecutable, Records, Shapes
from tensorsmith.cli.race import largest_difference, race
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.lang.dtypes import Array
from tensorsmith.records import Store
from tensorsmith.report import collect
from tensorsmith.report.data import Runner
from tensorsmith.report.render import library, write
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import shared
from tensorsmith.runtime.profile import KernelTime, Profile
from tensorsmith.targets import neighbours


@dataclass(frozen=True)
class System:
    """A system in the race: seconds of a call, and how its outputs differ from those of the last of ours."""

    system: str
    best: float
    median: float
    relative: float  # its best time over that of the last of ours
    largest_difference: float | None  # of any element; None: it is the one that others are compared with
    same: bool  # but for rounding


@dataclass(frozen=True)
class Race:
    """All systems, in turns. `largest` is the largest number of the outputs."""

    systems: tuple[System, ...]
    largest: float

    @property
    def fine(self) -> bool:
        """Whether all outputs are the same but for rounding."""
        return all(s.same for s in self.systems)


@dataclass(frozen=True)
class Benched:
    """What `bench` found. `notes`: who was left out, and what disturbed it."""

    model: str
    kernels: Kernels
    threads: int
    race: Race
    profile: tuple[KernelTime, ...] | None  # the costliest kernel first; None: not asked for
    report: str | None  # the page that was written
    notes: tuple[str, ...]


def bench(
    file: ModelOrExecutable,
    db: Records = None,
    vs: Annotated[
        str,
        typer.Option(metavar="NAMES", help='Others to compare with: onnxruntime, torch (by onnx2torch), openvino; "" for none.'),
    ] = "onnxruntime",
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL.onnx", help="What the others run, if FILE is an executable."),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time goes inside.")] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to measure, about.")] = 5.0,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page with the profile, the comparison and what --db knows.")
    ] = None,
    input: Inputs = None,
    shape: Shapes = None,
    json: AsJson = False,
) -> None:
    """Times a model side by side with other systems, in turns, and compares their outputs.

    A system that is not installed is left out, with a note. Exits with 1 if outputs differ by more than rounding.
    """
    names = peers.parse(vs)
    source = file if is_model(file) else model
    if source is not None and not is_model(source):
        raise UserError(f"--model {source}: expected an ONNX file")
    if report is not None:
        check_writable(report)
        library()
    with show.apart(json), neighbours.announced("bench"):
        notes = Notes()
        watch = neighbours.Watch(notes.add, shared().threads)
        executable = executable_of(file, db, shape or ())
        inputs = inputs_for(executable, input or ())
        show.say(f"{executable.name}: {Kernels.of(executable)}; {shared().threads} threads")
        if source is None and names:
            notes.add(f"without others: give --model MODEL.onnx, which {', '.join(names)} can read")
        others = [] if source is None else make_peers(names, source, inputs, notes)
        watch.look_now()
        found = side_by_side({"tensorsmith": executable}, others, inputs, seconds)
        watch.conclude()
        inside = executable.profile(*inputs.values()) if profile or report is not None else None
        if report is not None and inside is not None:
            of_file = load_model(file, shape or ()) if is_model(file) else None
            write_report(report, db, of_file, inside, found, notes)
        benched = Benched(
            model=executable.name,
            kernels=Kernels.of(executable),
            threads=shared().threads,
            race=found,
            profile=tuple(inside.kernels) if profile and inside is not None else None,
            report=report,
            notes=tuple(notes.found),
        )

    def shown(benched: Benched) -> None:
        show_race(benched.race)
        if profile:
            show.say(inside)
        if benched.report is not None:
            show.say(f"report: {benched.report}")

    show.answer(benched, json, shown)
    if not found.fine:
        raise typer.Exit(1)


class Notes:
    """What is said beside the figures: to people at once, to programs with the answer."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, text: object) -> None:
        self.found.append(show.line(text))
        show.say(show.line(text))


def make_peers(names: Sequence[str], path: str, inputs: Mapping[str, Array], notes: Notes) -> list[peers.Peer]:
    """Those that there are; a note for each that is not."""
    found = []
    for name in names:
        try:
            found.append(peers.make(name, path, inputs))
        except peers.Missing as problem:
            notes.add(problem)
    return found


def side_by_side(ours: Mapping[str, Executable], others: Sequence[peers.Peer], inputs: Mapping[str, Array], seconds: float) -> Race:
    """Times all of them for about so many seconds, and compares their outputs with those of the last of ours."""
    runs = {name: call(executable, inputs) for name, executable in ours.items()} | {peer.name: peer.run for peer in others}
    outputs = {name: list(executable.run(inputs).values()) for name, executable in ours.items()}
    outputs |= {peer.name: peer.outputs for peer in others}
    times = race(runs, seconds)
    reference = list(ours)[-1]
    systems = []
    for name, t in times.items():
        worst, same = largest_difference(outputs[name], outputs[reference])
        apart = None if name == reference else worst
        systems.append(System(name, t.best, t.median, t.best / times[reference].best, apart, same))
    largest = max((float(np.abs(a).max(initial=0.0)) for a in outputs[reference] if a.dtype.kind != "b"), default=1.0)
    return Race(tuple(systems), largest)


def show_race(found: Race) -> None:
    """The table, relative to the last of ours."""
    rows = []
    for s in found.systems:
        apart = "" if s.largest_difference is None else f"{s.largest_difference:.1g}{'' if s.same else ' WRONG'}"
        rows.append((s.system, show.time(s.best), show.time(s.median), f"{s.relative:.2f}x", apart))
    reference = next(s.system for s in found.systems if s.largest_difference is None)
    show.table(("system", "best", "median", f"time / {reference}", "largest difference"), rows, ("system",))
    if len(rows) > 1:
        show.say(f"the largest number of the outputs is {found.largest:.3g}")


def write_report(path: str, db: str | None, model: Model | None, profile: Profile, found: Race, notes: Notes) -> None:
    """A report of what was measured here, and of what the record file knows of the model."""
    runners = [Runner(s.system, s.best, s.median) for s in found.systems]
    made = collect.of_profile(profile, runners)
    if db is not None and model is not None:
        try:
            with Store.open(db, read_only=True) as store:
                made = collect.of_records(store, model=model, profile=profile, race=runners)
        except UserError as problem:
            notes.add(f"the report is without records: {told(problem)}")
    write(made, path)


def call(executable: Executable, inputs: Mapping[str, Array]) -> Callable[[], object]:
    """One call with everything in place, as with the peers."""
    arrays = [aligned_copy(inputs[a.name]) for a in executable.inputs]
    out = [np.empty(a.shape, a.numpy_dtype) for a in executable.outputs]
    return lambda: executable(*arrays, out=out)
