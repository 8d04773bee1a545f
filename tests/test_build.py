"""From candidates to kernels: the default schedule is always there, and if it were not, somebody would hear of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.graph import networks

import tensorsmith as ts
from tensorsmith.backends import backend, backend_of
from tensorsmith.build import build_default
from tensorsmith.errors import Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.rewrites.formulations import likely
from tensorsmith.targets.target import Target, native


def small() -> Workload:
    a = ts.placeholder((4,), name="A")
    return ts.workload([a, ts.compute((4,), lambda i: a[i] + 1.0, name="C")])


def test_plain_loops_come_with_a_warning_that_says_why(monkeypatch):
    def refuse(workload: Workload, target: Target) -> None:
        raise Refusal("not today")

    workload = small()
    broken = dataclasses.replace(backend_of(native()), default_candidate=refuse)
    monkeypatch.setitem(backend._known, "cpu", broken)
    expected = (
        rf"C has no default schedule for {native().name}, so plain loops are used: Refusal\('not today'\); workload {workload.key}"
    )
    with pytest.warns(UserWarning, match=expected):
        kernel, _ = build_default(workload, native())
    assert kernel.schedule == "plain"
    with pytest.warns(UserWarning, match=expected):
        assert np.array_equal(ts.compile(workload)(np.zeros(4, np.float32)), np.ones(4, np.float32))


#: on every width of vectors, and where there are few registers and small caches
MACHINES = [ts.Target.named(name) for name in ("x86-64-v2", "znver3", "skylake-avx512", "neoverse-n1")]


@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.name)
@pytest.mark.parametrize("batch", [1, 16])
def test_the_catalogue_needs_no_plain_loops(batch, target):
    """All cases; that the lowered program can be generated is tested on the small ones, and everywhere else."""
    for case in catalogue.cases(batch).values():
        workload = likely(case.workload()).workload
        lower(backend_of(target).default_candidate(workload, target))


@pytest.mark.parametrize("graph", [networks.residual, networks.mobile, networks.transformer, networks.patches])
def test_small_networks_need_no_plain_loops(graph):
    for target in MACHINES:
        for task in ts.Model.from_graph(graph()).partition.tasks:
            workload = likely(task.workload, task.formulations).workload
            lower(backend_of(target).default_candidate(workload, target))


@pytest.mark.parametrize("name", list(catalogue.small()))
def test_small_cases_need_no_plain_loops(name):
    kernel, _ = build_default(catalogue.small()[name].workload(), native())
    assert kernel.schedule == "default"
