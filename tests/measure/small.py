"""A small workload and candidates of it that are told apart by their unroll factor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tensorsmith as ts
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.lang.workload import Workload
from tensorsmith.measure import Limits
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

FAULTS = Path(__file__).parent / "faults.py"
BAD = 13  # the unroll factor of the candidate that a fault happens to

#: Nothing here takes long, so what has not ended after that never will, however busy the machine is.
LIMITS = replace(Limits(), build_floor=120.0, build_ceiling=120.0, run_floor=120.0, run_ceiling=120.0)

#: Of what never ends: all else takes hundredths of these seconds.
PATIENCE = replace(LIMITS, build_floor=10.0, build_ceiling=10.0, run_floor=10.0, run_ceiling=10.0)


def matmul() -> Workload:
    A = ts.placeholder((16, 24), name="A")
    B = ts.placeholder((24, 32), name="B", constant=True)
    k = ts.reduce_axis(24, name="k")
    C = ts.compute((16, 32), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
    return ts.workload([A, B, C])


def candidate(workload: Workload, unroll: int) -> Candidate:
    plain = default_candidate(workload, native())
    return Candidate(plain.sketch, {**plain.decisions, "C.parallel": 1, "C.unroll": unroll})


def candidates(workload: Workload, *unrolls: int) -> list[Candidate]:
    return [candidate(workload, n) for n in unrolls]


def unrolls(trials: list) -> list[int]:
    return [t.candidate.decisions["C.unroll"] for t in trials]


def fault(name: str) -> str:
    """The hook for a fault of `faults.py`."""
    return f"{FAULTS}:{name}"
