"""Programs made for vectors and registers of any named machine are right wherever they run: here, compiled for this one.

Vectors wider than the machine's are split by LLVM, narrower ones use a part of a register, so the answers must be the same.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.property.agreement import answers, describe, problem
from tests.property.definitions import random_arrays, random_workload

from tensorsmith.backends.backend import backend_of
from tensorsmith.backends.cpu.named import NAMED
from tensorsmith.build import build
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import native

MACHINES = sorted({(t.vector_bytes, t.vector_registers) for t in NAMED.values()})
RANDOM = 25  # workloads of each


def check(workload: Workload, vector_bytes: int, registers: int, seed: int) -> None:
    target = replace(native(), vector_bytes=vector_bytes, vector_registers=registers)
    candidate = backend_of(target).default_candidate(workload, target)
    arrays = random_arrays(workload, seed)
    want = evaluate(workload, arrays, precise=True)
    for name, got in zip(workload.outputs, answers(build(candidate, target), arrays), strict=True):
        wrong = problem(workload, name, got, want[name])
        assert wrong is None, f"vectors of {vector_bytes} bytes: {wrong}\n{describe(workload, candidate)}"


@pytest.mark.parametrize("vector_bytes, registers", MACHINES)
def test_the_small_catalogue(vector_bytes: int, registers: int) -> None:
    for seed, case in enumerate(catalogue.small().values()):
        check(case.workload(), vector_bytes, registers, seed)


@pytest.mark.parametrize("vector_bytes, registers", MACHINES)
def test_random_definitions(vector_bytes: int, registers: int) -> None:
    for seed in range(RANDOM):
        check(random_workload(Random(seed)), vector_bytes, registers, seed)
