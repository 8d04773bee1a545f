"""`tensorsmith compile`: a model to an executable file, without any search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.computation import EXECUTABLE, load_model
from tensorsmith.cli.executables import Kernels, compile_model
from tensorsmith.cli.options import AsJson, Formulations, ModelFile, Records, Shapes, TargetName
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.runtime.executable import Executable, Memory


@dataclass(frozen=True)
class Saved:
    """An executable in a file. `memory` is what it holds in bytes when it is loaded."""

    file: str
    file_bytes: int
    model: str
    target: str
    kernels: Kernels
    memory: Memory


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
    json: AsJson = False,
) -> None:
    """Compiles a model without any search: the best record of each task, else the default schedule.

    The file that it writes holds machine code for one kind of machine; run only files that you trust.
    """
    with show.apart(json):
        file = output or Path(model).stem + EXECUTABLE
        check_writable(file)
        saved = save(compile_model(load_model(model, shape or ()).with_formulations(formulations), db, target), file)
    show.answer(saved, json, show_saved)


def save(executable: Executable, file: str) -> Saved:
    """Writes an executable."""
    executable.save(file)
    size = Path(file).stat().st_size
    return Saved(file, size, executable.name, executable.network.target.key, Kernels.of(executable), executable.memory)


def show_saved(saved: Saved) -> None:
    show.say(f"{saved.file}: {saved.model}, {saved.kernels}")
    show.say(f"memory: {saved.memory}; file: {saved.file_bytes / 2**20:.1f} MiB")
