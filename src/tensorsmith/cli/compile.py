"""`tensorsmith compile`: a model to an executable file, without any search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.computation import EXECUTABLE, load_model
from tensorsmith.cli.executables import compile_model, kernels
from tensorsmith.cli.options import Formulations, ModelFile, OpenShapes, Records, TargetName
from tensorsmith.errors import UserError
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.executable import OpenExecutable


def compile(
    model: ModelFile,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Executable to write.", show_default=f"MODEL{EXECUTABLE}"),
    ] = None,
    db: Records = None,
    formulations: Formulations = ALL,
    shape: OpenShapes = None,
    target: TargetName = None,
) -> None:
    """Compiles a model without any search: the best record of each task, else the default schedule.

    The file that it writes holds machine code for one kind of machine; run only files that you trust.
    """
    file = output or Path(model).stem + EXECUTABLE
    check_writable(file)
    loaded = load_model(model, shape or ())
    if isinstance(loaded, OpenModel) and not loaded.named:
        raise UserError(f"a file needs sizes of {', '.join(loaded.symbols)}: --shape {loaded.symbols[0]}=1,8,32")
    save(compile_model(loaded, db, target, formulations), file)


def save(executable: Executable | OpenExecutable, file: str) -> None:
    """Writes an executable, and says what is in it."""
    executable.save(file)
    if isinstance(executable, OpenExecutable):
        show.say(f"{file}: {executable.name}")
        for variant in executable.variants:
            show.say(f"  {variant}: {kernels(variant.executable)}")
        show.say(executable.variants)
        show.say(f"file: {Path(file).stat().st_size / 2**20:.1f} MiB")
        return
    show.say(f"{file}: {executable.name}, {kernels(executable)}")
    show.say(f"memory: {executable.memory}; file: {Path(file).stat().st_size / 2**20:.1f} MiB")
