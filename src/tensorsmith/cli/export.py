"""`tensorsmith export`: a model to a library for programs in C."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.computation import load_fixed
from tensorsmith.cli.executables import Kernels, compile_model
from tensorsmith.cli.options import AsJson, Formulations, ModelFile, Records, Shapes, TargetName
from tensorsmith.rewrites.formulations import ALL


@dataclass(frozen=True)
class Exported:
    """A library in a folder, and the `files` there."""

    folder: str
    files: tuple[str, ...]
    model: str
    target: str
    kernels: Kernels


def export(
    model: ModelFile,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.")],
    name: Annotated[str | None, typer.Option(help="What its functions' names begin with.", show_default="MODEL")] = None,
    weights: Annotated[
        str, typer.Option(metavar="embedded|file", help="Weights in the library, or in a file that it maps into memory.")
    ] = "embedded",
    cc: Annotated[
        str | None, typer.Option(metavar="COMPILER", help="C compiler for the target.", show_default="the system's")
    ] = None,
    db: Records = None,
    formulations: Formulations = ALL,
    shape: Shapes = None,
    target: TargetName = None,
    json: AsJson = False,
) -> None:
    """Writes a C library of a model: header, C file, objects of the kernels, a CMake file and an example.

    The kernels are those that `compile` would use. Programs that use the library need neither Python nor Tensorsmith.
    """
    with show.apart(json):
        executable = compile_model(load_fixed(model, shape or ()), db, target, formulations)
        written = executable.export(output, name=name, weights=weights, compiler=cc)
        files = tuple(str(f.relative_to(Path(output))) for f in written)
    found = Exported(output, files, executable.name, executable.network.target.key, Kernels.of(executable))
    show.answer(found, json, _show)


def _show(found: Exported) -> None:
    show.say(f"{found.folder}: {found.model}, {found.kernels}")
    show.say(", ".join(f for f in found.files if not f.startswith("objects/")))
