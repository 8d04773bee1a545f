"""A candidate's time as its compiled code shows it, without a device: the prior, with the registers that the compiler really gives.

Registers decide how many blocks run at once, and what does not fit them is spilled; both are guesses in the features of programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.backends.gpu.features.columns import columns
from tensorsmith.backends.gpu.features.kernel import Told
from tensorsmith.backends.gpu.features.schema import SCHEMA
from tensorsmith.backends.gpu.generate import check_limits, generate
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.prior import estimate_seconds
from tensorsmith.backends.gpu.simt.make import kernels as make_kernels
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.program.ir import own_block
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.sketch import Candidate

Array = np.ndarray[Any, np.dtype[Any]]


def estimated_candidate(candidate: Candidate, target: GpuTarget) -> float:
    """Estimated seconds. Where ptxas is installed and knows the target, it compiles the code, and its registers count instead of
    ours. What cannot be built is refused."""
    program = lower(candidate)
    kernels = [dict(Told(program, root, 1, target).told()) for root in program.body]
    if target.dialect == "cuda" and ptxas.knows(target.architecture):
        launches = Launches.from_bytes(generate(program, target).code.data)
        found = ptxas.compiled(launches.text, target.architecture)
        for told, launch in zip(kernels, launches.launches):
            if launch.kernel in found:
                told |= as_compiled(told, found[launch.kernel])
    else:
        for kernel in make_kernels(program, target.copies_apart, target.fetches_ahead):
            check_limits(kernel, target)
    rows = np.concatenate([columns(told, 1, target) for told in kernels])
    stages = tuple(own_block(root).stage.name for root in program.body)
    return float(estimate_seconds(FeatureMatrix(rows[None], stages, SCHEMA), target)[0])


def as_compiled(told: Mapping[str, Array], found: ptxas.Compiled) -> dict[str, Array]:
    """What changes when registers, spills and shared memory are known."""
    results, passes = (float(np.asarray(told[name]).reshape(-1)[0]) for name in ("results", "passes"))
    share = min(1.0, found.spilled_bytes / 4 / max(1.0, results))
    return {
        "registers": np.array([float(found.registers)]),
        "spilled_share": np.array([share]),
        "spill_bytes": np.array([8 * passes * share]),
        "shared_bytes": np.array([float(found.shared_bytes)]),
    }
