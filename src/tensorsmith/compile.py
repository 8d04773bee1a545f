"""From a candidate, or a definition, to an executable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.codegen.generate import ENTRY, generate
from tensorsmith.errors import Refusal
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.define import workload as workload_of
from tensorsmith.lang.workload import Workload
from tensorsmith.program.ir import PackedRead, Program
from tensorsmith.program.lower import lower
from tensorsmith.program.packing import pack
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.runtime import jit
from tensorsmith.runtime.executable import Argument, Executable
from tensorsmith.space.default import default_candidate
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch import Candidate
from tensorsmith.target import Target, native

_SLACK = 64  # elements behind a packed constant: vectors may be read past its end


def build(candidate: Candidate, target: Target | None = None, name: str | None = None) -> Executable:
    """The executable of one candidate. Raises `Refusal` where the candidate cannot be lowered or compiled."""
    target = target or native()
    program = lower(candidate)
    return build_program(program, candidate.sketch.workload, target, name)


def build_program(program: Program, workload: Workload, target: Target, name: str | None = None) -> Executable:
    """The executable of a loop program for a workload."""
    generated = generate(program, target)
    module = jit.build(generated.ir, target)
    packers = {b.name: partial(_pack, b.packed) for b in program.buffers.values() if b.packed and b.kind == "constant"}
    return Executable(
        name=name or "_".join(workload.outputs),
        entry=module.address(ENTRY),
        keep=module,
        inputs=[Argument(b.name, b.shape, b.dtype) for b in workload.inputs],
        outputs=[Argument(n, workload.buffers[n].shape, workload.buffers[n].dtype) for n in workload.outputs],
        scratch_bytes=generated.scratch_bytes,
        scratch_bytes_per_thread=generated.scratch_bytes_per_thread,
        constants=frozenset(b.name for b in workload.inputs if b.constant),
        packers=packers,
        build_times=module.times,
        program=lambda: str(program),
        llvm_ir=lambda: module.llvm_ir,
        assembly=lambda: module.assembly,
    )


def _pack(packed: PackedRead, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    ordered = pack(packed, array)
    result = np.zeros(ordered.size + _SLACK, ordered.dtype)
    result[: ordered.size] = ordered.ravel()
    return result


def compile(
    computation: Workload | Sequence[Tensor],
    *,
    database: str | Path | None = None,
    target: Target | None = None,
    name: str | None = None,
) -> Executable:
    """An executable without any search: the best record in the `database`, else the default schedule by the target's facts alone.

    `computation` is a list of inputs and outputs, as in `[A, B, D]`, or a `Workload`. Bind constants with
    `kernel.bind(B=b)` so that they are packed once instead of on every call.
    """
    workload = as_workload(computation)
    target = target or native()
    if database is not None and Path(database).exists():
        with Store.open(database, read_only=True) as store:
            best = store.best(workload, target, Timing("warm", target.cores))
        if best is not None:
            return build(best.candidate, target, name)
    try:
        return build(default_candidate(workload, target), target, name)
    except Refusal:
        return build(plain_candidate(workload), target, name)


def as_workload(computation: Workload | Sequence[Tensor]) -> Workload:
    """A workload given as itself or as the list of its inputs and outputs."""
    return computation if isinstance(computation, Workload) else workload_of(computation)
