"""`tensorsmith run`: a model on given inputs."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_outputs, inputs_for, write_outputs
from tensorsmith.cli.executables import executables_of
from tensorsmith.cli.options import Inputs, ModelOrExecutable, OpenShapes, Records
from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array


def run(
    file: ModelOrExecutable,
    input: Inputs = None,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="[NAME=]FILE", help="Writes an output to NAME=FILE.npy, or all of them to FILE.npz."),
    ] = None,
    db: Records = None,
    shape: OpenShapes = None,
    seed: Annotated[int, typer.Option(help="Of random inputs.")] = 0,
) -> None:
    """Runs a model or an executable once, and shows what it gives.

    An executable is machine code: run only files that you trust.
    """
    found = executables_of(file, db, shape or (), input or ())
    if len(found) > 1:
        raise UserError(
            f"{file} has {len(found)} sizes ({', '.join(e.name for e in found)}): give --input FILE, or --shape with one"
        )
    (executable,) = found
    check_outputs(executable.outputs, output or ())
    results = executable.run(inputs_for(executable, input or (), seed))
    written = write_outputs(results, output or ())
    columns = ("output", "type", "shape", "least", "mean", "largest", "not finite")
    show.table(
        columns, [(name, array.dtype, show.shape(array.shape), *_summary(array)) for name, array in results.items()], ("output",)
    )
    for line in written:
        show.say(line)


def _summary(array: Array) -> tuple[str, ...]:
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    lost = str(array.size - finite.size)
    return (*(f"{f(finite):.6g}" for f in (np.min, np.mean, np.max)), lost) if finite.size else ("-", "-", "-", lost)
