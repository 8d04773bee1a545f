"""`tensorsmith export`: a model to a library for programs in C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.computation import load_model
from tensorsmith.cli.executables import compile_model, kernels
from tensorsmith.cli.options import Formulations, ModelFile, Records, Shapes, TargetName
from tensorsmith.rewrites.formulations import ALL


def export(
    model: ModelFile,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.")],
    name: Annotated[str | None, typer.Option(help="What its functions' names begin with.", show_default="MODEL")] = None,
    weights: Annotated[
        str, typer.Option(metavar="embedded|file", help="Weights in the library, or in a file that it maps into memory.")
    ] = "embedded",
    cc: Annotated[
        str | None,
        typer.Option(metavar="COMPILER", help="C compiler for the target.", show_default="the system's"),
    ] = None,
    db: Records = None,
    formulations: Formulations = ALL,
    shape: Shapes = None,
    target: TargetName = None,
) -> None:
    """Writes a C library of a model: header, C file, objects of the kernels, a CMake file and an example.

    The kernels are those that `compile` would use. Programs that use the library need neither Python nor Tensorsmith.
    """
    executable = compile_model(load_model(model, shape or ()).with_formulations(formulations), db, target)
    files = executable.export(output, name=name, weights=weights, compiler=cc)
    show.say(f"{output}: {executable.name}, {kernels(executable)}")
    show.say(", ".join(str(f.relative_to(Path(output))) for f in files if f.parent.name != "objects"))
