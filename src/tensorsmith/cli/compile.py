"""`tensorsmith compile`: a model to an executable file, without any search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.computation import EXECUTABLE, load_model
from tensorsmith.cli.executables import compile_model, kernels
from tensorsmith.cli.options import Formulations, ModelFile, Records, Shapes, TargetName
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.runtime.executable import Executable


def compile(
    model: ModelFile,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Executable to write.", show_default=f"MODEL{EXECUTABLE}"),
    ] = None,
    db: Records = None,
    formulations: Formulations = ALL,
    shape: Shapes = None,
    target: TargetName = None,
) -> None:
    """Compiles a model without any search: the best record of each task, else the default schedule.

    The file that it writes holds machine code for one kind of machine; run only files that you trust.
    """
    file = output or Path(model).stem + EXECUTABLE
    check_writable(file)
    save(compile_model(load_model(model, shape or ()).with_formulations(formulations), db, target), file)


def save(executable: Executable, file: str) -> None:
    """Writes an executable, and says what is in it."""
    executable.save(file)
    show.say(f"{file}: {executable.name}, {kernels(executable)}")
    show.say(f"memory: {executable.memory}; file: {Path(file).stat().st_size / 2**20:.1f} MiB")
