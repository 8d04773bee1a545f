"""`tensorsmith compile`: a model to an executable file, without any search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.computation import EXECUTABLE, Loading, load_model
from tensorsmith.cli.executables import Kernels, compile_model
from tensorsmith.cli.options import (
    AsJson,
    DrawSeed,
    Formulations,
    ModelFile,
    OpenShapes,
    Outputs,
    Records,
    TargetName,
    Threads,
    Weights,
)
from tensorsmith.compile import stored
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.graph.weights_error import WeightsError
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.runtime.executable import Executable, Memory
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.show.line import many
from tensorsmith.show.units import size


@dataclass(frozen=True)
class SavedVariant:
    """One size of an executable in a file. Of the constants in `memory`, `shared_bytes` are those of other variants too."""

    sizes: Mapping[str, int]
    kernels: Kernels
    memory: Memory
    shared_bytes: int
    seconds: float | None  # that it took to compile


@dataclass(frozen=True)
class Saved:
    """An executable in a file. `memory` is what it holds in bytes when it is loaded. With open dimensions there are `variants`, and
    `kernels` and `memory` are of all of them together."""

    file: str
    file_bytes: int
    model: str
    target: str
    kernels: Kernels
    memory: Memory
    variants: tuple[SavedVariant, ...] = ()
    weights: WeightsError | None = None  # None: they are stored as they were imported


def compile(
    model: ModelFile,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Executable to write.", show_default=f"MODEL{EXECUTABLE}"),
    ] = None,
    db: Records = None,
    formulations: Formulations = ALL,
    effort: Annotated[
        str | None,
        typer.Option(
            metavar="model", help="Let the pre-trained model choose for tasks without a record: no trial, seconds a task."
        ),
    ] = None,
    weights: Weights = None,
    shape: OpenShapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    target: TargetName = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Compiles a model without any search: the best record of each task, else the default schedule.

    The file that it writes holds machine code for one kind of machine; run only files that you trust.
    """
    with show.apart(json):
        file = output or Path(model).stem + EXECUTABLE
        check_writable(file)
        loaded = load_model(model, Loading.of(shape, outputs, draw_seed))
        if isinstance(loaded, OpenModel) and not loaded.named:
            raise UserError(f"a file needs sizes of {', '.join(loaded.symbols)}: --shape {loaded.symbols[0]}=1,8,32")
        loaded = stored(loaded, weights)
        saved = replace(save(compile_model(loaded, db, target, formulations, effort, threads), file), weights=weights_error(loaded))
    show.answer(saved, json, show_saved)


def weights_error(model: Model | OpenModel) -> WeightsError | None:
    """What weights in fewer bits change, on random inputs, if a model has such; of open sizes, at the first."""
    one = model.model(model.named[0]) if isinstance(model, OpenModel) else model
    return None if one.weights is None else one.weights_error()


def save(executable: Executable | OpenExecutable, file: str) -> Saved:
    """Writes an executable."""
    executable.save(file)
    variants: tuple[SavedVariant, ...] = ()
    if isinstance(executable, OpenExecutable):
        found = executable.variants
        variants = tuple(SavedVariant(v.sizes, Kernels.of(v.executable), v.memory, found.shared_bytes(v), v.seconds) for v in found)
        target = found[0].executable.network.target
    else:
        target = executable.network.target
    return Saved(
        file=file,
        file_bytes=Path(file).stat().st_size,
        model=executable.name,
        target=target.key,
        kernels=Kernels.of(executable),
        memory=executable.memory,
        variants=variants,
    )


def show_saved(saved: Saved) -> None:
    if not saved.variants:
        show.prose(f"{saved.file}: {saved.model}, {saved.kernels}")
    else:
        show.prose(f"{saved.file}: {saved.model}, {many(len(saved.variants), 'variant')}")
        show_variants(saved.variants)
    if saved.weights is not None:
        show.prose(saved.weights)
    show.prose(f"memory: {saved.memory}; file: {saved.file_bytes / 2**20:.1f} MiB")


def show_variants(variants: Sequence[SavedVariant]) -> None:
    rows = []
    for v in variants:
        sizes = (v.memory.constants, v.shared_bytes, v.memory.arena, v.memory.scratch)
        rows.append([*v.sizes.values(), str(v.kernels), *map(size, sizes), "" if v.seconds is None else f"{v.seconds:.2f} s"])
    columns = ("kernels", "weights", "of them shared", "arena", "scratch", "compiled in")
    show.table([*variants[0].sizes, *columns], rows, ("kernels",), ("compiled in", "of them shared"))
