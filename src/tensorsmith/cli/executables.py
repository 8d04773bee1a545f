"""The executable that a command asks for: of a model and its records, or from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorsmith.cli.computation import EXECUTABLE, MODEL, is_executable, is_model, load_model
from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.load import load as load_executable

_KINDS = {"record": "with a record", "default": "with the default schedule", "plain": "with plain loops"}


def executable_of(file: str, database: str | None = None, shapes: Sequence[str] = ()) -> Executable:
    """The executable in a file, or that of a model, compiled now. Raises `UserError` for options that a file cannot obey."""
    if is_model(file):
        return compile_model(load_model(file, shapes), database)
    if not is_executable(file):
        raise UserError(f"{file} is neither a model ({MODEL}) nor an executable ({EXECUTABLE})")
    if not Path(file).is_file():
        raise UserError(f"there is no file {file}")
    if database is not None or shapes:
        raise UserError(f"{file} is compiled: {'--db' if database is not None else '--shape'} is for models")
    return load_executable(file)


def compile_model(model: Model, database: str | None, target: str | None = None) -> Executable:
    """Compiles a model; a record file that is named must be there."""
    if database is not None:
        check_database(database)
    return compile(model, database=database, target=target)


def check_database(database: str) -> None:
    if not Path(database).exists():
        raise UserError(f"there is no record file {database}; `tensorsmith tune` makes one")


@dataclass(frozen=True)
class Kernels:
    """How many kernels and steps an executable has; `schedules`: how many have theirs from a record, by default, as plain loops."""

    kernels: int
    steps: int
    schedules: Mapping[str, int]

    @staticmethod
    def of(executable: Executable) -> Kernels:
        network = executable.network
        counts = Counter(kernel.schedule for kernel in network.kernels)
        return Kernels(len(network.kernels), len(network.steps), {kind: counts[kind] for kind in _KINDS})

    def __str__(self) -> str:
        parts = [f"{count} {_KINDS[kind]}" for kind, count in self.schedules.items() if count]
        return f"{self.kernels} kernels in {self.steps} steps{': ' if parts else ''}{', '.join(parts)}"
