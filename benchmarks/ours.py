"""Our executables as contestants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness import Repeated
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads


@dataclass(frozen=True)
class Kernel:
    """`output` runs it once; `contestant` is what to time: the code alone, as `Executable.benchmark` times it, with
    constants bound. `call` is the same through Python with its checks, as a user calls it."""

    contestant: Repeated
    executable: Executable
    arrays: list[np.ndarray]
    out: np.ndarray
    threads: int

    def output(self) -> np.ndarray:
        self.out.fill(np.nan if self.out.dtype.kind == "f" else 0)
        self.contestant.repeat(1)
        return self.out

    def call(self) -> None:
        with with_threads(self.threads):
            self.executable(*self.arrays, out=self.out)


def kernel(executable: Executable, inputs: Mapping[str, np.ndarray], threads: int) -> Kernel:
    """The executable on these inputs (constants are bound here), run on that many threads."""
    constants = {a.name: inputs[a.name] for a in executable.inputs if a.name in executable.constants}
    bound = executable.bind(**constants) if constants else executable
    arrays = [inputs[a.name] for a in bound.inputs]
    prepared = bound.prepare(*arrays, threads=threads)
    return Kernel(Repeated(prepared.repeat), bound, arrays, prepared.outputs[0], prepared.threads)
