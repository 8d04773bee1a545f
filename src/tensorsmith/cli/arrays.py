"""Inputs from .npy and .npz files, or made up; outputs to such files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array
from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.executable import Executable


def inputs_for(executable: Executable, texts: Sequence[str], seed: int = 0) -> dict[str, Array]:
    """What `--input` gave, else floats of a normal distribution and integers that are all ones: any table has an entry 1 or 0."""
    if not texts:
        generator = np.random.default_rng(seed)
        return {a.name: _random(a, generator) for a in executable.inputs}
    known = {a.name: a for a in executable.inputs}
    given = read_all(texts, list(known))
    for name, (array, file) in given.items():
        if name not in known:
            raise UserError(f"{file}: {executable.name} has no input {name!r}; its inputs are {', '.join(known) or 'none'}")
        wanted = known[name]
        if wanted.dtype == "bf16" and array.dtype == np.dtype("V2"):  # what NumPy writes of them has no name for them
            array = array.view(wanted.numpy_dtype)
            given[name] = array, file
        if array.dtype != wanted.numpy_dtype or array.shape != wanted.shape:
            need, have = f"{wanted.numpy_dtype}{list(wanted.shape)}", f"{array.dtype}{list(array.shape)}"
            raise UserError(f"{file}: input {name} must be {need}, this is {have}")
    missing = [name for name in known if name not in given]
    if missing:
        raise UserError(f"input {missing[0]} is missing; give --input {missing[0]}=FILE.npy, a {known[missing[0]]}")
    return {name: given[name][0] for name in known}


@dataclass(frozen=True)
class Written:
    """A file, and the outputs that are in it."""

    file: str
    outputs: tuple[str, ...]


def write_outputs(outputs: Mapping[str, Array], texts: Sequence[str]) -> list[Written]:
    """Writes `NAME=FILE.npy` (just `FILE.npy` where there is one output) or all of them to `FILE.npz`; what was written."""
    plan = _plan(outputs, texts)
    for file, chosen in plan:
        _write(file, outputs, chosen)
    return [Written(file, tuple(chosen)) for file, chosen in plan]


def check_outputs(outputs: Sequence[Argument], texts: Sequence[str]) -> None:
    """Raises `UserError` for what `write_outputs` cannot do, before anything has run."""
    for file, _ in _plan({a.name: None for a in outputs}, texts):
        check_writable(file)


def check_writable(file: str) -> None:
    """Raises `UserError` unless a file can be made there: better now than after an hour."""
    path = Path(file)
    folder = path.resolve().parent
    if not folder.is_dir():
        raise UserError(f"{file} cannot be written: there is no folder {path.parent}")
    if path.is_dir():
        raise UserError(f"{file} cannot be written: it is a folder")
    if path.exists() and not path.is_file():
        raise UserError(f"{file} cannot be written: it is no ordinary file")
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise UserError(f"{file} cannot be written: there is no right to write in the folder {path.parent}")


def _random(argument: Argument, generator: np.random.Generator) -> Array:
    if argument.kind == "f":
        return generator.standard_normal(argument.shape).astype(argument.numpy_dtype)
    return np.ones(argument.shape, argument.numpy_dtype)


def read_all(texts: Sequence[str], inputs: Sequence[str]) -> dict[str, tuple[Array, str]]:
    """What `--input` gave: arrays by name, each with the file it is from. The only one of the `inputs` needs no name."""
    found: dict[str, tuple[Array, str]] = {}
    for text in texts:
        name, _, file = text.rpartition("=")
        if not name and not file.endswith(".npz"):
            if len(inputs) != 1:
                names = f"; the inputs are {', '.join(inputs)}" if inputs else ""
                raise UserError(f"--input {text}: write NAME=FILE.npy, or FILE.npz with arrays of the inputs' names{names}")
            name = inputs[0]
        for key, array in _read(file, name).items():
            if key in found:
                raise UserError(f"--input {text}: input {key} is given twice")
            found[key] = array, file
    return found


def _read(file: str, name: str) -> dict[str, Array]:
    """The array of a .npy file under that name, or those of a .npz file under their own (under `name` if it has just one)."""
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {name: loaded}
        with loaded:
            arrays = {key: np.asarray(loaded[key]) for key in loaded.files}
    except FileNotFoundError as problem:
        raise UserError(f"there is no file {file}") from problem
    except OSError as problem:
        raise UserError(f"{file} cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise UserError(f"{file} is no array of NumPy (.npy or .npz), or holds Python objects") from problem
    if not name:
        return arrays
    if len(arrays) != 1:
        raise UserError(f"{file} holds {len(arrays)} arrays ({', '.join(arrays)}); give it without {name}=")
    return {name: next(iter(arrays.values()))}


def _plan(outputs: Mapping[str, object], texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Files, and the outputs that go into each."""
    plan = []
    for text in texts:
        name, _, file = text.rpartition("=")
        if name and name not in outputs:
            raise UserError(f"--output {text}: there is no output {name!r}; there are {', '.join(outputs)}")
        if not file.endswith((".npy", ".npz")) or (not name and file.endswith(".npy") and len(outputs) != 1):
            raise UserError(f"--output {text}: write NAME=FILE.npy, or FILE.npz for all outputs")
        plan.append((file, [name] if name else list(outputs)))
    return plan


def _write(file: str, outputs: Mapping[str, Array], names: Sequence[str]) -> None:
    try:
        with open(file, "wb") as stream:
            if file.endswith(".npy"):
                np.save(stream, outputs[names[0]])
            else:
                _save_archive(stream, {name: outputs[name] for name in names})
    except OSError as problem:
        raise UserError(f"{file} cannot be written: {problem.strerror or problem}") from problem


def _save_archive(stream: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """What `np.savez` does, for names that are no Python parameters too."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
