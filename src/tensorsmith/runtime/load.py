"""A saved executable back in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tensorsmith.errors import COMPILE, UserError
from tensorsmith.runtime import file
from tensorsmith.runtime.built import Network
from tensorsmith.runtime.device import device_of
from tensorsmith.runtime.drawing import presented
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.runtime.variants.symbols import OpenArgument
from tensorsmith.targets.host import check_threads


def load_any(path: str | Path, *, threads: int | None = None) -> Executable | OpenExecutable:
    """The executable of a file that `save` wrote. Its machine code runs in this process: load only files that you trust.

        exe = ts.load_executable("model.tsm")
        y = exe(x)

    So many `threads` run it; by default as many as it was compiled for with `threads=`, else as many as the process uses.

    Raises `UserError` if the file at `path` is damaged, of another version, or made for a machine that this one is not. A file with
    several variants gives an executable of the sizes that are in it, those of ranges included, and of no others.
    """
    check_threads(threads)
    found = file.read(path)
    if isinstance(found, Network):
        return _loaded(found, path, threads)
    made = OpenExecutable(found.name, [OpenArgument(*argument) for argument in found.inputs], None)
    for sizes, network, bounds in found.variants:
        made.add_loaded(sizes, _loaded(network, path, threads), bounds)
    return made


def load(path: str | Path) -> Executable:
    """As `load_any`, of a file with one network."""
    found = file.read(path)
    if not isinstance(found, Network):
        raise UserError(f"{path} has {len(found.variants)} variants; a file with one network is needed")
    return _loaded(found, path, None)


def _loaded(network: Network, path: str | Path, threads: int | None) -> Executable:
    why = device_of(network.target.kind).why_not(network.target)
    if why is not None:
        raise UserError(f"{path} {why}; compile the model here: ", COMPILE)
    made = Executable(network if threads is None else replace(network, threads=threads))
    with file.damage_named(path):
        made.load()
    return presented(made)
