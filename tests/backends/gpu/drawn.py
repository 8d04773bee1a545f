"""Random candidates for GPUs over small workloads of every kind: what tests on devices and interpreters run."""

from __future__ import annotations

import numpy as np

from tensorsmith.backends import space_of
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.lang.compare import difference
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.space.population.population import unique
from tensorsmith.space.population.sampling import sample_plan
from tensorsmith.space.sketch.sketch import Candidate

OPENCL = NAMED["opencl"]
WORKLOADS: dict[str, Workload] = {name: case.workload() for name, case in catalogue.small().items()}

#: one of each kind of computation
KINDS = (
    "matmul-small", "GMM-small", "C1D-small", "C2D-small", "C3D-small", "GRP-small", "DEP-small", "T2D-small", "softmax-small",
    "layer_norm-small", "NRM-small", "max_pool-small", "ConvLayer-small", "TBS-small", "argmax-small", "matmul-i32-small",
)  # fmt: skip

#: a dozen that compile soon
QUICK = (
    "matmul-small", "GMM-small", "C1D-small", "C2D-1x1-small", "GRP-small", "DEP-small", "T1D-small", "softmax-small",
    "layer_norm-small", "NRM-small", "max_pool-small", "argmax-small",
)  # fmt: skip


def candidates(workload: Workload, count: int, seed: int, target: GpuTarget = OPENCL, rules: str = "default") -> list[Candidate]:
    """So many candidates, or as many as there are, of all sketches in turn."""
    space = space_of(workload, target, rules)
    rng = np.random.default_rng(seed)
    found = [unique(sample_plan(plan, count, rng)) for plan in space.plans]
    turns = [space.plans[n].candidate(rows[k]) for k in range(count) for n, rows in enumerate(found) if k < len(rows)]
    return turns[:count]


def problems(workload: Workload, want: dict[str, np.ndarray], got: object) -> list[str]:
    """What is wrong with answers."""
    answers = list(got) if isinstance(got, (tuple, list)) else [got]
    found = [difference(workload, name, np.asarray(a), want[name]) for name, a in zip(workload.outputs, answers, strict=True)]
    return [text for text in found if text is not None]
