"""`tensorsmith bench`: a model side by side with other systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import numpy as np
import typer

from tensorsmith.cli import peers, show
from tensorsmith.cli.arrays import check_writable, inputs_for
from tensorsmith.cli.computation import is_model, load_fixed
from tensorsmith.cli.executables import executables_of, kernels
from tensorsmith.cli.options import Inputs, ModelOrExecutable, OpenShapes, Records
from tensorsmith.cli.race import Times, largest_difference, race
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
from tensorsmith.runtime.profile import Profile


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
    shape: OpenShapes = None,
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
    found = executables_of(file, db, shape or (), input or ())
    if report is not None and len(found) > 1:
        raise UserError(f"--report {report}: a report is of one size; give --shape with one")
    if source is None and names:
        show.say(f"without others: give --model MODEL.onnx, which {', '.join(names)} can read")
    fine = True
    for executable in found:
        inputs = inputs_for(executable, input or ())
        show.say(f"{executable.name}: {kernels(executable)}; {shared().threads} threads")
        others = [] if source is None else make_peers(names, source, inputs)
        same, times = side_by_side({"tensorsmith": executable}, others, inputs, seconds)
        fine = fine and same
        if profile or report is not None:
            profiled = executable.profile(*inputs.values())
            if profile:
                show.say(profiled)
            if report is not None:
                write_report(report, db, load_fixed(file, shape or ()) if is_model(file) else None, profiled, times)
    if not fine:
        raise typer.Exit(1)


def make_peers(names: Sequence[str], path: str, inputs: Mapping[str, Array]) -> list[peers.Peer]:
    """Those that there are; a note for each that is not."""
    found = []
    for name in names:
        try:
            found.append(peers.make(name, path, inputs))
        except peers.Missing as problem:
            show.say(problem)
    return found


def side_by_side(
    ours: Mapping[str, Executable], others: Sequence[peers.Peer], inputs: Mapping[str, Array], seconds: float
) -> tuple[bool, dict[str, Times]]:
    """Prints the table, relative to the last of ours; whether all outputs are the same but for rounding, and the times."""
    runs = {name: call(executable, inputs) for name, executable in ours.items()} | {peer.name: peer.run for peer in others}
    outputs = {name: list(executable.run(inputs).values()) for name, executable in ours.items()}
    outputs |= {peer.name: peer.outputs for peer in others}
    times = race(runs, seconds)
    reference = list(ours)[-1]
    rows, fine = [], True
    for name, t in times.items():
        worst, same = largest_difference(outputs[name], outputs[reference])
        fine = fine and same
        apart = "" if name == reference else f"{worst:.1g}{'' if same else ' WRONG'}"
        rows.append((name, show.time(t.best), show.time(t.median), f"{t.best / times[reference].best:.2f}x", apart))
    largest = max((float(np.abs(a).max(initial=0.0)) for a in outputs[reference] if a.dtype.kind != "b"), default=1.0)
    columns = ("system", "best", "median", f"time / {reference}", "largest difference")
    show.table(columns, rows, ("system",))
    if len(rows) > 1:
        show.say(f"the largest number of the outputs is {largest:.3g}")
    return fine, times


def write_report(path: str, db: str | None, model: Model | None, profile: Profile, times: Mapping[str, Times]) -> None:
    """A report of what was measured here, and of what the record file knows of the model."""
    race = [Runner(name, t.best, t.median) for name, t in times.items()]
    found = collect.of_profile(profile, race)
    if db is not None and model is not None:
        try:
            with Store.open(db, read_only=True) as store:
                found = collect.of_records(store, model=model, profile=profile, race=race)
        except UserError as problem:
            show.say(f"the report is without records: {problem}")
    write(found, path)
    show.say(f"report: {path}")


def call(executable: Executable, inputs: Mapping[str, Array]) -> Callable[[], object]:
    """One call with everything in place, as with the peers."""
    arrays = [aligned_copy(inputs[a.name]) for a in executable.inputs]
    out = [np.empty(a.shape, a.numpy_dtype) for a in executable.outputs]
    return lambda: executable(*arrays, out=out)
