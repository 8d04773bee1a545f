"""Programs for another machine against the evaluator of definitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.arm.emulator import Job, Machine, run
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

MOST_FLOPS = 3e7  # of a case; an emulated multiply-add takes some tens of nanoseconds


def check(found: Sequence[tuple[Workload, Candidate]], target: Target, folder: Path, machine: Machine) -> int:
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
    for (workload, candidate, arrays), results in zip(kept, run(jobs, folder, machine), strict=True):
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


def by_default(workloads: Sequence[Workload], target: Target) -> list[tuple[Workload, Candidate]]:
    """With the default schedule of each."""
    return [(w, backend_of(target).default_candidate(w, target)) for w in workloads]


def twin(name: str) -> Workload:
    """A case of the catalogue, its largest sizes halved until the emulator can run it."""
    case = catalogue.get(name)
    shape = list(case.shape)
    while flops(workload := workload_of(case.build(*shape))) > MOST_FLOPS:
        shape[shape.index(max(shape))] = -(-max(shape) // 2)
    return workload


def twins(operator: str) -> list[Workload]:
    """The cases of an operator, and their other formulations."""
    cases = [twin(case) for case in catalogue.cases(1) if case.startswith(f"{operator}-")]
    assert len(cases) == 4
    return cases + [f.workload for w in cases for f in formulations(w) if f.workload != w]
