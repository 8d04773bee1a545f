"""Object code into the memory of this process. Nothing is compiled here: loaded executables come this way too."""

from __future__ import annotations

from collections.abc import Mapping

from tensorsmith.backends.cpu import elf, symbols
from tensorsmith.errors import needed_for
from tensorsmith.runtime.built import Code
from tensorsmith.runtime.device import Loaded


def link(code: Code, given: Mapping[str, int] | None = None) -> Loaded:
    """Code that runs on this machine, in memory. Names that it does not define are those of `symbols.outside`, or have an address
    in `given`; another name is an `InternalError`."""
    known = {**symbols.outside(), **(given or {})}
    names = symbols.undefined(code.data)
    symbols.check(names, known)
    reached = {name: known[name] for name in names}
    if elf.is_x86_64(code.data):
        return elf.link(code, reached)
    with needed_for("linking code of this machine"):
        from tensorsmith.backends.cpu import jitlink  # LLVM, where our own linker does not know the machine

    return jitlink.link(code, reached)
