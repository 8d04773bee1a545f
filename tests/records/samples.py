"""Workloads, targets and trials for the tests of the store; also for their subprocesses, so it imports little."""

from __future__ import annotations

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang import define as ts
from tensorsmith.lang.define import Reduction
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch

TARGET = CpuTarget("x86_64-linux-gnu", "znver4", "+avx2,+fma", 32, 16, 32768, 8, 1 << 20, 1 << 25, 64, 2)
TIMING = Timing("warm", 2)


def matmul(n: int = 32, m: int = 16, name: str = "C", reduction: Reduction = ts.sum) -> Workload:
    a, b = ts.placeholder((n, n), name="A"), ts.placeholder((n, m), name="B", constant=True)
    k = ts.reduce_axis(n, name="k")
    return ts.workload([a, b, ts.compute((n, m), lambda i, j: reduction(a[i, k] * b[k, j], axis=k), name=name)])


def candidate(workload: Workload, i: int = 4, j: int = 8, unroll: int = 1, parallel: int = 1) -> Candidate:
    name = workload.outputs[0]
    sketch = Sketch(workload, (Nest(name, "i.0 j.0 | k.0 i.1 j.1", vector="j.1"),)).check()
    decisions = {f"{name}.i.1": i, f"{name}.j.1": j, f"{name}.parallel": parallel, f"{name}.unroll": unroll}
    return Candidate(sketch, decisions)


def trial(workload: Workload, seconds: float = 1e-3, i: int = 4, **more: object) -> Trial:
    return Trial(candidate(workload, i), Status.OK, seconds, **more)


def failure(workload: Workload, status: Status = Status.CRASHED, cause: str = "segmentation fault", i: int = 5) -> Trial:
    return Trial(candidate(workload, i), status, cause=cause)
