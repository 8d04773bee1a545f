"""The executable that a command asks for: of a model and its records, or from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import overload

from tensorsmith.cli.arrays import read_all
from tensorsmith.cli.computation import EXECUTABLE, MODEL, is_executable, is_model, load_model, parse_shapes
from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.load import load_any as load_executable
from tensorsmith.runtime.variants.executable import OpenExecutable

_KINDS = {
    "record": "with a record",
    "carried": "with a record of another size",
    "default": "with the default schedule",
    "plain": "with plain loops",
}


def executables_of(file: str, database: str | None, shapes: Sequence[str], inputs: Sequence[str]) -> list[Executable]:
    """The executable in a file, or that of a model, compiled now. Raises `UserError` for options that a file cannot obey.

    With open dimensions, that of the sizes which the `inputs` have; without inputs, those of all sizes that are named, or in the
    file.
    """
    made = _executable_of(file, database, shapes)
    if isinstance(made, Executable):
        return [made]
    if inputs:
        given = {name: array for name, (array, _) in read_all(inputs).items()}
        missing = [a for a in made.inputs if a.name not in given]
        if missing:
            raise UserError(f"input {missing[0].name} is missing; give --input {missing[0].name}=FILE.npy, a {missing[0]}")
        return [made.at(**dict(zip(made.symbols, made.sizes_of([given[a.name] for a in made.inputs]))))]
    if not made.variants:
        raise UserError(f"{', '.join(made.symbols)} has no size: give --input FILE, or name sizes: --shape {made.symbols[0]}=1,8")
    return [variant.executable for variant in made.variants]


def _executable_of(file: str, database: str | None, shapes: Sequence[str]) -> Executable | OpenExecutable:
    if is_model(file):
        return compile_model(load_model(file, shapes), database)
    if not is_executable(file):
        raise UserError(f"{file} is neither a model ({MODEL}) nor an executable ({EXECUTABLE})")
    if not Path(file).is_file():
        raise UserError(f"there is no file {file}")
    if database is not None:
        raise UserError(f"{file} is compiled: --db is for models")
    loaded = load_executable(file)
    if not shapes:
        return loaded
    if isinstance(loaded, Executable):
        raise UserError(f"{file} is compiled: --shape is for models")
    sizes = {name: n for name, n in parse_shapes(shapes).items() if isinstance(n, int)}
    if len(sizes) < len(shapes):
        raise UserError(f"{file} is compiled: --shape chooses one of its sizes, {loaded.symbols[0]}=8")
    return loaded.at(**sizes)


@overload
def compile_model(model: Model, database: str | None, target: str | None = None, formulations: str = ALL) -> Executable: ...


@overload
def compile_model(model: OpenModel, database: str | None, target: str | None = None, formulations: str = ALL) -> OpenExecutable: ...


def compile_model(
    model: Model | OpenModel, database: str | None, target: str | None = None, formulations: str = ALL
) -> Executable | OpenExecutable:
    """Compiles a model; a record file that is named must be there."""
    if database is not None:
        check_database(database)
    return compile(model, database=database, target=target, formulations=formulations)


def check_database(database: str) -> None:
    if not Path(database).exists():
        raise UserError(f"there is no record file {database}; `tensorsmith tune` makes one")


def kernels(executable: Executable) -> str:
    """How many kernels there are, and where their schedules came from."""
    network = executable.network
    counts = Counter(kernel.schedule for kernel in network.kernels)
    parts = [f"{counts[kind]} {text}" for kind, text in _KINDS.items() if counts[kind]]
    return f"{len(network.kernels)} kernels in {len(network.steps)} steps{': ' if parts else ''}{', '.join(parts)}"
