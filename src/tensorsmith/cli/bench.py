"""`tensorsmith bench`: a model side by side with other systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import typer

from tensorsmith.cli import peers, show
from tensorsmith.cli.arrays import check_writable, inputs_for
from tensorsmith.cli.computation import Loading, is_model, load_model
from tensorsmith.cli.differences import largest_difference
from tensorsmith.cli.executables import Kernels, Sized, executables_of
from tensorsmith.cli.options import AsJson, DrawSeed, Inputs, ModelOrExecutable, OpenShapes, Outputs, Records, Threads
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.lang.dtypes import Array
from tensorsmith.measure.referee import compare
from tensorsmith.records import Store
from tensorsmith.report import collect
from tensorsmith.report.data import Runner
from tensorsmith.report.render import library, write
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.profile import KernelTime, Profile
from tensorsmith.show.line import many, plain
from tensorsmith.targets import neighbours


@dataclass(frozen=True)
class System:
    """A system in the race: seconds of a call, and how its outputs differ from those of the last of ours."""

    system: str
    best: float
    median: float
    relative: float  # its best time over that of the last of ours
    median_relative: float  # its median over that of the last of ours
    slots: int  # one a round
    disturbed: int  # slots of them that were disturbed
    largest_difference: float | None  # of any element; None: it is the one that others are compared with
    same: bool  # but for rounding


@dataclass(frozen=True)
class Race:
    """All systems, in turns. `retaken`: how often disturbed slots were taken again; `largest`: the largest number of outputs."""

    systems: tuple[System, ...]
    retaken: int
    largest: float

    @property
    def fine(self) -> bool:
        """Whether all outputs are the same but for rounding."""
        return all(s.same for s in self.systems)


@dataclass(frozen=True)
class BenchedVariant:
    """One of several sizes, as in `Benched`."""

    model: str
    sizes: Mapping[str, int]
    kernels: Kernels
    race: Race
    profile: tuple[KernelTime, ...] | None


@dataclass(frozen=True)
class Benched:
    """What `bench` found. `notes`: who was left out, and what disturbed it.

    Of several sizes each is one of the `variants`; then there is no one race, and `kernels` are those of all of them.
    """

    model: str
    sizes: Mapping[str, int]  # of the dimensions that were left open, where it is of one size
    kernels: Kernels
    threads: int
    race: Race | None
    profile: tuple[KernelTime, ...] | None  # the costliest kernel first; None: not asked for
    variants: tuple[BenchedVariant, ...]
    report: str | None  # the page that was written
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Run:
    """What was found of one size."""

    of: Sized
    race: Race
    inputs: Mapping[str, Array]
    profile: Profile | None = None


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
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to measure, about; twice that on a busy machine.")] = 5.0,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page with the profile, the comparison and what --db knows.")
    ] = None,
    input: Inputs = None,
    shape: OpenShapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Times a model side by side with other systems, in turns, and compares their outputs.

    A system that is not installed is left out, with a note. Exits with 1 if outputs differ by more than rounding. With several
    sizes (--shape batch=1,8,32, or an executable that has them) there is a table for each.
    """
    names = peers.parse(vs)
    source = file if is_model(file) else model
    if source is not None and not is_model(source):
        raise UserError(f"--model {source}: expected an ONNX file")
    if report is not None:
        check_writable(report)
        library()
    with show.apart(json), neighbours.announced("bench"):
        notes, given = Notes(), Loading.of(shape, outputs, draw_seed)
        found = executables_of(file, db, given, input or (), threads)
        used = max(one.executable.threads for one in found)
        watch = neighbours.Watch(notes.add, used)
        if report is not None and len(found) > 1:
            raise UserError(f"--report {report}: a report is of one size; give --shape with one")
        if given.outputs and names and source is not None:
            notes.add(f"without others: {', '.join(names)} would run the whole of {source}, not what --outputs leaves of it")
            source = None
        elif source is None and names:
            notes.add(f"without others: give --model MODEL.onnx, which {', '.join(names)} can read")
        runs = []
        for one in found:
            show.prose(f"{one.executable.name}: {Kernels.of(one.executable)}; {many(one.executable.threads, 'thread')}")
            inputs = inputs_for(one.executable, input or ())
            others = [] if source is None else make_peers(names, source, inputs, notes, one.executable.threads)
            watch.look_now()
            runs.append(_Run(one, side_by_side({"tensorsmith": one.executable}, others, inputs, seconds), inputs))
        watch.conclude()
        if profile or report is not None:
            runs = [replace(run, profile=run.of.executable.profile(*run.inputs.values())) for run in runs]
        if report is not None:
            of_file = load_model(file, given) if is_model(file) else None
            if isinstance(of_file, OpenModel):
                of_file = of_file.at(**runs[0].of.sizes)
            write_report(report, db, of_file, runs[0], notes)
        benched = _benched(runs, profile, report, notes)

    def shown(benched: Benched) -> None:
        for run in runs:
            if len(runs) > 1:
                show.say(run.of.executable.name)
            show_race(run.race)
            if profile:
                assert run.profile is not None
                show_profile(run.profile)
        if benched.report is not None:
            show.say(f"report: {benched.report}")

    show.answer(benched, json, shown)
    if not all(run.race.fine for run in runs):
        raise typer.Exit(1)


def _benched(runs: Sequence[_Run], profile: bool, report: str | None, notes: Notes) -> Benched:
    each = [
        BenchedVariant(
            model=run.of.executable.name,
            sizes=run.of.sizes,
            kernels=Kernels.of(run.of.executable),
            race=run.race,
            profile=tuple(run.profile.kernels) if profile and run.profile is not None else None,
        )
        for run in runs
    ]
    one = each[0] if len(each) == 1 else None
    return Benched(
        model=one.model if one else runs[0].of.model,
        sizes=one.sizes if one else {},
        kernels=Kernels.sum(v.kernels for v in each),
        threads=max(run.of.executable.threads for run in runs),
        race=one.race if one else None,
        profile=one.profile if one else None,
        variants=() if one else tuple(each),
        report=report,
        notes=tuple(notes.found),
    )


class Notes:
    """What is said beside the figures: to people at once, to programs with the answer."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, text: object) -> None:
        self.found.append(plain(text))
        show.prose(text)


def make_peers(names: Sequence[str], path: str, inputs: Mapping[str, Array], notes: Notes, threads: int) -> list[peers.Peer]:
    """Those that there are, on as many threads as ours has; a note for each that is not."""
    found = []
    for name in names:
        try:
            found.append(peers.make(name, path, inputs, threads))
        except peers.Missing as problem:
            notes.add(problem)
    return found


def side_by_side(ours: Mapping[str, Executable], others: Sequence[peers.Peer], inputs: Mapping[str, Array], seconds: float) -> Race:
    """Times all of them for about so many seconds, and compares their outputs with those of the last of ours."""
    runs = {name: call(executable, inputs) for name, executable in ours.items()} | {peer.name: peer.run for peer in others}
    outputs = {name: list(executable.run(inputs).values()) for name, executable in ours.items()}
    outputs |= {peer.name: peer.outputs for peer in others}
    found = compare(runs, ours=runs, seconds=seconds)  # as all are called ours, nobody leaves early
    reference = list(ours)[-1]
    systems = []
    for name, t in found.timings.items():
        worst, same = largest_difference(outputs[name], outputs[reference])
        apart = None if name == reference else worst
        relative, median_relative = t.best / found[reference].best, t.median / found[reference].median
        systems.append(System(name, t.best, t.median, relative, median_relative, len(t.slots), t.disturbed, apart, same))
    largest = max((float(np.abs(a).max(initial=0.0)) for a in outputs[reference] if a.dtype.kind != "b"), default=1.0)
    return Race(tuple(systems), found.retaken, largest)


def show_race(found: Race) -> None:
    """The table, relative to the last of ours."""
    rows = []
    for s in found.systems:
        apart = "" if s.largest_difference is None else f"{s.largest_difference:.1g}{'' if s.same else ' WRONG'}"
        times = show.time(s.median), f"{s.median_relative:.2f}x", show.time(s.best), f"{s.relative:.2f}x"
        rows.append((s.system, *times, f"{s.disturbed} of {s.slots}", apart))
    reference = next(s.system for s in found.systems if s.largest_difference is None)
    show.table(("system", "median", "ratio", "best", "ratio", "disturbed", "difference"), rows, ("system",), ("disturbed",))
    if len(rows) > 1:
        apart = f"the largest of any output, whose largest number is {found.largest:.3g}"
        show.prose(f"ratio: time of a call to that of {reference}; difference: {apart}")
    show.prose(f"disturbed: slots of all, after {many(found.retaken, 'retake')} of disturbed ones")


def show_profile(found: Profile) -> None:
    """A line for each kernel, the costliest first."""
    columns = ("kernel", "calls", "time", "share", "GFLOP/s", "schedule")
    rows = [
        (k.title, k.calls, f"{k.seconds * 1e6:,.2f} us", show.share(k.share), show.rate(k.flops, k.seconds), k.schedule)
        for k in found.kernels
    ]
    show.table(columns, rows, ("kernel", "schedule"), ("GFLOP/s", "calls"))
    show.prose(f"{found.name}: {len(found.steps)} steps, {found.seconds * 1e6:,.2f} us")


def write_report(path: str, db: str | None, model: Model | None, run: _Run, notes: Notes) -> None:
    """A report of what was measured here, and of what the record file knows of the model."""
    runners, profile = [Runner(s.system, s.best, s.median) for s in run.race.systems], run.profile
    assert profile is not None
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
