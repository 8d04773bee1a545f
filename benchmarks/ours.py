"""Our executables as contestants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tensorsmith.lang.workload import Workload
from tensorsmith.measure.referee import Repeated, Run
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.runtime.executable import Executable


@dataclass(frozen=True)
class Kernel:
    """`call` is what is timed, through Python with its checks as a user calls it, into the memory of an earlier result. `alone` is
    the code without Python. `output` calls it once."""

    call: Run
    alone: Repeated
    output: Callable[[], np.ndarray]


def kernel(executable: Executable, inputs: Mapping[str, np.ndarray], threads: int) -> Kernel:
    """The executable on these inputs (constants are bound here). To be called inside `with_threads(threads)`."""
    constants = {a.name: inputs[a.name] for a in executable.inputs if a.name in executable.constants}
    bound = executable.bind(**constants) if constants else executable
    arrays = [inputs[a.name] for a in bound.inputs]
    out = bound(*arrays)

    def call() -> object:
        return bound(*arrays, out=out)

    def output() -> np.ndarray:
        out.fill(np.nan if out.dtype.kind == "f" else 0)  # what it does not write is noticed
        call()
        return out

    return Kernel(call, Repeated(bound.prepare(*arrays, threads=threads).repeat), output)


def same_program(one: Executable, other: Executable) -> bool:
    """Whether two executables of a workload are the same code."""
    return one.program == other.program and one.llvm_ir == other.llvm_ir


def formulation(executable: Executable, workload: Workload) -> str:
    """ "direct", or "winograd" where the program has stages that only Winograd's formulation has."""
    written = {stage.name for stage in workload.stages}
    for other in formulations(workload)[1:]:
        added = [stage.name for stage in other.workload.stages if stage.name not in written]
        if any(re.search(rf"\b{re.escape(name)}\b", executable.program) for name in added):
            return other.name.split("-")[0]
    return formulations(workload)[0].name
