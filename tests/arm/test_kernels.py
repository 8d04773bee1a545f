"""Code for AArch64, run by an emulator, against the evaluator of definitions. `make test-arm` installs what it needs.

A few run wherever the cross compiler and the emulator are installed; the rest takes minutes, and is for `make test-arm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tests.arm.emulator import AARCH64, Job, run
from tests.property.agreement import describe, problem
from tests.property.definitions import random_arrays, random_workload
from tests.property.schedules import random_candidate

from tensorsmith.backends.backend import backend_of
from tensorsmith.build import build_kernel, kernel_alone
from tensorsmith.errors import Refusal
from tensorsmith.lang.define import workload as workload_of
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

TARGETS = ("cortex-a53", "neoverse-n1", "neoverse-v1")
MOST_FLOPS = 3e7  # of a case; an emulated multiply-add takes some tens of nanoseconds
BATCH = 20  # kernels in one program

pytestmark = pytest.mark.skipif(bool(AARCH64.missing), reason=f"needs {', '.join(AARCH64.missing)}: `make test-arm` installs it")


def check(found: Sequence[tuple[Workload, Candidate]], target: Target, folder: Path) -> int:
    """How many were run; those that cannot be built are left out."""
    jobs, kept = [], []
    for n, (workload, candidate) in enumerate(found):
        arrays = random_arrays(workload, n)
        try:
            network = kernel_alone(workload, build_kernel(candidate, target))
        except Refusal:
            continue
        jobs.append(Job(network, [arrays[a.name] for a in network.inputs]))
        kept.append((workload, candidate, arrays))
    for (workload, candidate, arrays), results in zip(kept, run(jobs, folder), strict=True):
        want = evaluate(workload, arrays, precise=True)
        for name, got in zip(workload.outputs, results, strict=True):
            wrong = problem(workload, name, got, want[name])
            assert wrong is None, f"{target.name}: {wrong}\n{describe(workload, candidate)}"
    return len(kept)


def random_programs(seeds: range) -> list[tuple[Workload, Candidate]]:
    found = []
    for seed in seeds:
        rng = Random(seed)
        workload = random_workload(rng)
        found.append((workload, random_candidate(workload, rng)))
    return found


def twin(name: str) -> Workload:
    """A case of the catalogue, its largest sizes halved until the emulator can run it."""
    case = catalogue.get(name)
    shape = list(case.shape)
    while flops(workload := workload_of(case.build(*shape))) > MOST_FLOPS:
        shape[shape.index(max(shape))] = -(-max(shape) // 2)
    return workload


def test_some_random_programs(tmp_path: Path) -> None:
    assert check(random_programs(range(20)), Target.named("cortex-a53"), tmp_path) >= 15


@pytest.mark.arm
@pytest.mark.parametrize("first", range(100, 600, BATCH))
def test_random_programs(first: int, tmp_path: Path) -> None:
    target = Target.named(TARGETS[first // BATCH % len(TARGETS)])
    assert check(random_programs(range(first, first + BATCH)), target, tmp_path) >= 0.7 * BATCH


@pytest.mark.arm
@pytest.mark.parametrize("operator", catalogue.OPERATORS)
@pytest.mark.parametrize("name", TARGETS)
def test_the_catalogue(name: str, operator: str, tmp_path: Path) -> None:
    """The default schedule of every case, or of its small twin, and of its other formulations."""
    target = Target.named(name)
    cases = [twin(case) for case in catalogue.cases(1) if case.startswith(f"{operator}-")]
    assert len(cases) == 4
    found = [(w, backend_of(target).default_candidate(w, target)) for w in cases]
    found += [
        (f.workload, backend_of(target).default_candidate(f.workload, target))
        for w in cases
        for f in formulations(w)
        if f.workload != w
    ]
    assert check(found, target, tmp_path) == len(found)
