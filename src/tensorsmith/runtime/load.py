"""A saved executable back in memory."""

from __future__ import annotations

from pathlib import Path

from tensorsmith.errors import COMPILE, UserError
from tensorsmith.runtime import file
from tensorsmith.runtime.built import Network
from tensorsmith.runtime.device import device_of
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.runtime.variants.symbols import OpenArgument


def load_any(path: str | Path) -> Executable | OpenExecutable:
    """The executable of a file that `save` wrote. Its machine code runs in this process: load only files that you trust.

        exe = ts.load_executable("model.tsm")
        y = exe(x)

    Raises `UserError` if the file at `path` is damaged, of another version, or made for a machine that this one is not. A file with
    several variants gives an executable of the sizes that are in it, and of no others.
    """
    found = file.read(path)
    if isinstance(found, Network):
        return _loaded(found, path)
    made = OpenExecutable(found.name, [OpenArgument(*argument) for argument in found.inputs], None)
    for sizes, network in found.variants:
        made.add(sizes, _loaded(network, path), None, kept=True)
    return made


def load(path: str | Path) -> Executable:
    """As `load_any`, of a file with one network."""
    found = file.read(path)
    if not isinstance(found, Network):
        raise UserError(f"{path} has {len(found.variants)} variants; a file with one network is needed")
    return _loaded(found, path)


def _loaded(network: Network, path: str | Path) -> Executable:
    why = device_of(network.target.kind).why_not(network.target)
    if why is not None:
        raise UserError(f"{path} {why}; compile the model here: ", COMPILE)
    made = Executable(network)
    with file.damage_named(path):
        made.load()
    return made
