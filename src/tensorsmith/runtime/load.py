"""A saved executable back in memory."""

from __future__ import annotations

from pathlib import Path

from tensorsmith.errors import COMPILE, UserError
from tensorsmith.runtime import file
from tensorsmith.runtime.device import device_of
from tensorsmith.runtime.executable import Executable


def load(path: str | Path) -> Executable:
    """The executable of a file that `save` wrote. Its machine code runs in this process: load only files that you trust.

        exe = ts.load_executable("model.tsm")
        y = exe(x)

    Raises `UserError` if the file at `path` is damaged, of another version, or made for a machine that this one is not.
    """
    network = file.read(path)
    why = device_of(network.target.kind).why_not(network.target)
    if why is not None:
        raise UserError(f"{path} {why}; compile the model here: ", COMPILE)
    made = Executable(network)
    with file.damage_named(path):
        made.load()
    return made
