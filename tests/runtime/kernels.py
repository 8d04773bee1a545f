"""Kernels written in LLVM IR: code in memory, and executables of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensorsmith.backends.cpu.link import link
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.built import Kernel, of_one_kernel
from tensorsmith.runtime.device import Loaded
from tensorsmith.runtime.executable import Executable, executable
from tensorsmith.targets.target import Target, native


def linked(text: str, target: Target | None = None, passes: str | None = None, given: Mapping[str, int] | None = None) -> Loaded:
    return link(compile_ir(text, target or native(), passes=passes), given)


def alone(
    text: str,
    inputs: Sequence[Argument],
    outputs: Sequence[Argument],
    name: str = "kernel",
    constants: frozenset[str] = frozenset(),
    packers: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
    scratch_bytes: int = 0,
    scratch_bytes_per_thread: int = 0,
) -> Executable:
    """The executable of the one function of the text."""
    numbers = {a.name: n for n, a in enumerate(inputs)}
    kernel = Kernel(
        name,
        compile_ir(text, native()),
        tuple(a.bytes for a in (*inputs, *outputs)),
        len(inputs),
        scratch_bytes,
        scratch_bytes_per_thread,
        packers={numbers[n]: pack for n, pack in (packers or {}).items()},
    )
    return executable(of_one_kernel(kernel, inputs, outputs, constants))
