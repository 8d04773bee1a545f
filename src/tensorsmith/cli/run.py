"""`tensorsmith run`: a model on given inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import Written, check_outputs, inputs_for, write_outputs
from tensorsmith.cli.computation import Loading
from tensorsmith.cli.executables import executables_of
from tensorsmith.cli.options import AsJson, DrawSeed, Inputs, ModelOrExecutable, OpenShapes, Outputs, Records, Threads
from tensorsmith.cli.told import with_told_sizes
from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array


@dataclass(frozen=True)
class Output:
    """An output in figures; `least`, `mean` and `largest` are of its finite elements, None where there are none."""

    name: str
    type: str
    shape: tuple[int, ...]
    least: float | None
    mean: float | None
    largest: float | None
    not_finite: int

    @staticmethod
    def of(name: str, array: Array) -> Output:
        numbers = array.astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        least, mean, largest = (float(f(finite)) if finite.size else None for f in (np.min, np.mean, np.max))
        return Output(name, str(array.dtype), array.shape, least, mean, largest, array.size - finite.size)


@dataclass(frozen=True)
class Ran:
    """What a run gave, and the files that hold it. `sizes` are those of the dimensions that were left open."""

    model: str
    sizes: Mapping[str, int]
    outputs: tuple[Output, ...]
    written: tuple[Written, ...]
    trace: str | None = None  # the file with what each thread did when


def run(
    file: ModelOrExecutable,
    input: Inputs = None,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="[NAME=]FILE", help="Writes an output to NAME=FILE.npy, or all of them to FILE.npz."),
    ] = None,
    db: Records = None,
    shape: OpenShapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    threads: Threads = None,
    seed: Annotated[int, typer.Option(help="Of random inputs.")] = 0,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Writes what each thread does when, as JSON that ui.perfetto.dev opens.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Runs a model or an executable once, and shows what it gives.

    An executable is machine code: run only files that you trust.
    """
    with show.apart(json):
        loading = with_told_sizes(file, Loading.of(shape, outputs, draw_seed), input or ())
        found = executables_of(file, db, loading, input or (), threads)
        if len(found) > 1:
            names = ", ".join(one.executable.name for one in found)
            raise UserError(f"{file} has {len(found)} sizes ({names}): give --input FILE, or --shape with one")
        executable, sizes = found[0].executable, found[0].sizes
        check_outputs(executable.outputs, output or ())
        inputs = inputs_for(executable, input or (), seed)
        results = executable.run(inputs)
        written = write_outputs(results, output or ())
        if trace is not None:
            executable.trace(trace, *(inputs[a.name] for a in executable.inputs))
        shown = tuple(Output.of(name, array) for name, array in results.items())
        ran = Ran(executable.name, sizes, shown, tuple(written), trace)
    show.answer(ran, json, _show)


def _show(ran: Ran) -> None:
    columns = ("output", "type", "shape", "least", "mean", "largest", "not finite")
    rows = []
    for o in ran.outputs:
        figures = ["-" if x is None else f"{x:.6g}" for x in (o.least, o.mean, o.largest)]
        rows.append((o.name, o.type, show.shape(o.shape), *figures, o.not_finite))
    show.table(columns, rows, ("output", "type", "shape"), ("not finite",))
    for written in ran.written:
        show.say(f"{written.file} written: {', '.join(written.outputs)}")
    if ran.trace is not None:
        show.say(f"{ran.trace} written: open it at https://ui.perfetto.dev")
