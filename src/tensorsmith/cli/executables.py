"""The executable that a command asks for: of a model and its records, or from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from tensorsmith.cli.arrays import read_all
from tensorsmith.cli.computation import EXECUTABLE, MODEL, Loading, is_executable, is_model, load_model, parse_shapes
from tensorsmith.compile import BY_MODEL, check_effort, compile
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.load import load_any as load_executable
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.show.line import many

_KINDS = {
    "record": "with a record",
    "carried": "with a record of another size",
    "estimated": "chosen by estimated times",
    "model": "chosen by the model",
    "default": "with the default schedule",
    "plain": "with plain loops",
}


@dataclass(frozen=True)
class Sized:
    """An executable of a model, and the sizes of the open dimensions that it is for; none where nothing was open."""

    model: str
    executable: Executable
    sizes: Mapping[str, int]


def executables_of(
    file: str, database: str | None, given: Loading, inputs: Sequence[str], threads: int | None = None
) -> list[Sized]:
    """The executable in a file, or that of a model, compiled now. Raises `UserError` for options that a file cannot obey.

    With open dimensions, that of the sizes which the `inputs` have; without inputs, those of all sizes that are named, or in the
    file.
    """
    made = _executable_of(file, database, given, threads)
    if isinstance(made, Executable):
        return [Sized(made.name, made, {})]
    sizes = _chosen(file, made, given.shapes) if is_executable(file) else {}
    if sizes:
        return [Sized(made.name, made.at(**sizes), sizes)]
    if inputs:
        arrays = {name: array for name, (array, _) in read_all(inputs, [a.name for a in made.inputs]).items()}
        missing = [a for a in made.inputs if a.name not in arrays]
        if missing:
            raise UserError(f"input {missing[0].name} is missing; give --input {missing[0].name}=FILE.npy, a {missing[0]}")
        sizes = dict(zip(made.symbols, made.sizes_of([arrays[a.name] for a in made.inputs])))
        return [Sized(made.name, made.at(**sizes), sizes)]
    if not made.variants:
        raise UserError(f"{', '.join(made.symbols)} has no size: give --input FILE, or name sizes: --shape {made.symbols[0]}=1,8")
    return [Sized(made.name, variant.executable, variant.sizes) for variant in made.variants]


def _executable_of(file: str, database: str | None, given: Loading, threads: int | None) -> Executable | OpenExecutable:
    if is_model(file):
        return compile_model(load_model(file, given), database, threads=threads)
    if not is_executable(file):
        raise UserError(f"{file} is neither a model ({MODEL}) nor an executable ({EXECUTABLE})")
    if not Path(file).is_file():
        raise UserError(f"there is no file {file}")
    if database is not None:
        raise UserError(f"{file} is compiled: --db is for models")
    loaded = load_executable(file, threads=threads)
    given.refuse_cut(f"{file} is compiled")
    if given.shapes and isinstance(loaded, Executable):
        raise UserError(f"{file} is compiled: --shape is for models")
    return loaded


def _chosen(file: str, executable: OpenExecutable, shapes: Sequence[str]) -> dict[str, int]:
    """The sizes that `--shape` chooses of those in a file; none without it."""
    sizes = {name: n for name, n in parse_shapes(shapes).items() if isinstance(n, int)}
    if len(sizes) < len(shapes):
        raise UserError(f"{file} is compiled: --shape chooses one of its sizes, {executable.symbols[0]}=8")
    return sizes


@overload
def compile_model(
    model: Model,
    database: str | None,
    target: str | None = None,
    formulations: str = ALL,
    effort: str | None = None,
    threads: int | None = None,
) -> Executable: ...


@overload
def compile_model(
    model: OpenModel,
    database: str | None,
    target: str | None = None,
    formulations: str = ALL,
    effort: str | None = None,
    threads: int | None = None,
) -> OpenExecutable: ...


def compile_model(
    model: Model | OpenModel,
    database: str | None,
    target: str | None = None,
    formulations: str = ALL,
    effort: str | None = None,
    threads: int | None = None,
) -> Executable | OpenExecutable:
    """Compiles a model; a record file that is named must be there."""
    if database is not None:
        check_database(database)
    check_effort(effort)
    chosen: Literal["model"] | None = "model" if effort == BY_MODEL else None
    return compile(model, database=database, target=target, formulations=formulations, effort=chosen, threads=threads)


def check_database(database: str) -> None:
    if not Path(database).exists():
        raise UserError(f"there is no record file {database}; `tensorsmith tune` makes one")


@dataclass(frozen=True)
class Kernels:
    """How many kernels and steps an executable has, of open dimensions: all its variants. `schedules`: how many have theirs from a
    record, from a record of another size, by default, as plain loops."""

    kernels: int
    steps: int
    schedules: Mapping[str, int]

    @staticmethod
    def of(executable: Executable | OpenExecutable) -> Kernels:
        if isinstance(executable, OpenExecutable):
            return Kernels.sum(Kernels.of(variant.executable) for variant in executable.variants)
        network = executable.network
        counts = Counter(kernel.schedule for kernel in network.kernels)
        return Kernels(len(network.kernels), len(network.steps), {kind: counts[kind] for kind in _KINDS})

    @staticmethod
    def sum(several: Iterable[Kernels]) -> Kernels:
        """Of several executables together."""
        found = list(several)
        schedules = {kind: sum(k.schedules[kind] for k in found) for kind in _KINDS}
        return Kernels(sum(k.kernels for k in found), sum(k.steps for k in found), schedules)

    def __str__(self) -> str:
        parts = [f"{count} {_KINDS[kind]}" for kind, count in self.schedules.items() if count]
        return f"{many(self.kernels, 'kernel')} in {many(self.steps, 'step')}{': ' if parts else ''}{', '.join(parts)}"
