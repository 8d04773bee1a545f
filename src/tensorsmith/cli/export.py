"""`tensorsmith export`: a model to a library for programs in C."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.compile import weights_error
from tensorsmith.cli.computation import Loading, load_fixed
from tensorsmith.cli.executables import Kernels, compile_model
from tensorsmith.cli.options import AsJson, DrawSeed, Formulations, ModelFile, Outputs, Records, Shapes, TargetName, Weights
from tensorsmith.compile import stored
from tensorsmith.graph.weights_error import WeightsError
from tensorsmith.rewrites.formulations import ALL


@dataclass(frozen=True)
class Exported:
    """A library in a folder, and the `files` there."""

    folder: str
    files: tuple[str, ...]
    model: str
    target: str
    kernels: Kernels
    weights: WeightsError | None = None  # None: they are stored as they were imported


def export(
    model: ModelFile,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.")],
    name: Annotated[str | None, typer.Option(help="What its functions' names begin with.", show_default="net_MODEL")] = None,
    weights: Annotated[
        str, typer.Option(metavar="embedded|file", help="Weights in the library, or in a file that it maps into memory.")
    ] = "embedded",
    weights_as: Weights = None,
    cc: Annotated[
        str | None, typer.Option(metavar="COMPILER", help="C compiler for the target.", show_default="the system's")
    ] = None,
    db: Records = None,
    formulations: Formulations = ALL,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    target: TargetName = None,
    json: AsJson = False,
) -> None:
    """Writes a C library of a model: header, C file, objects of the kernels, a CMake file and an example.

    The kernels are those that `compile` would use. Programs that use the library need neither Python nor Tensorsmith.
    """
    with show.apart(json):
        loaded = stored(load_fixed(model, Loading.of(shape, outputs, draw_seed)), weights_as)
        executable = compile_model(loaded, db, target, formulations)
        written = executable.export(output, name=name, weights=weights, compiler=cc)
        files = tuple(str(f.relative_to(Path(output))) for f in written)
    found = Exported(output, files, executable.name, executable.network.target.key, Kernels.of(executable), weights_error(loaded))
    show.answer(found, json, _show)


def _show(found: Exported) -> None:
    show.say(f"{found.folder}: {found.model}, {found.kernels}")
    if found.weights is not None:
        show.say(found.weights)
    show.say(", ".join(f for f in found.files if not f.startswith("objects/")))
