"""The executable that a command asks for: of a model and its records, or from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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


def kernels(executable: Executable) -> str:
    """How many kernels there are, and where their schedules came from."""
    network = executable.network
    counts = Counter(kernel.schedule for kernel in network.kernels)
    parts = [f"{counts[kind]} {text}" for kind, text in _KINDS.items() if counts[kind]]
    return f"{len(network.kernels)} kernels in {len(network.steps)} steps{': ' if parts else ''}{', '.join(parts)}"
