"""Copies that go on while threads do (`cp.async`): for machines that have them, waited for, and right."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.backends.gpu.drawn import problems
from tests.backends.gpu.faults import faults, noticed
from tests.backends.gpu.test_generated_ptx import outputs
from tests.backends.gpu.test_kernels import results

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.generate import generate
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.printers.c import source
from tensorsmith.backends.gpu.printers.dialects import DIALECTS
from tensorsmith.backends.gpu.simt.ir import Move, Wait, walk
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import sample_plan
from tensorsmith.space.sketch.sketch import Candidate

A100 = NAMED["a100"]


def workload(kind: str = "f32", k: int = 24) -> Workload:
    a, b, axis = ts.placeholder((8, k), kind, name="A"), ts.placeholder((k, 12), kind, name="B"), ts.reduce_axis(k, name="k")
    return ts.workload([a, b, ts.compute((8, 12), lambda i, j: ts.sum(a[i, axis] * b[axis, j], axis=axis), name="C")])


def ahead(of: Workload, widths: tuple[int, int] = (4, 4)) -> Candidate:
    """Tiles of eight steps, the next of which are fetched while one is used."""
    (plan,) = space_of(of, A100).plans
    rows = sample_plan(plan, 1, np.random.default_rng(0))
    wanted = {"buffers": 2, "k.1": 1, "k.2": 8, "A.pad": 0, "B.pad": 0, "A.d1.1": widths[0], "B.d1.1": widths[1]}
    summed = plan.sketch.nests[-2].stage
    for name, value in wanted.items():
        rows[:, plan.names[f"{summed}.{name}"]] = value
    return plan.candidate(repair(plan, rows)[0])


@pytest.mark.parametrize(("kind", "widths"), [("f32", (4, 4)), ("f32", (1, 2)), ("f16", (4, 2)), ("f64", (2, 1))])
def test_copies_apart_are_right(kind: str, widths: tuple[int, int]) -> None:
    of = workload(kind)
    inputs = random_inputs(of, 0)
    want = evaluate(of, inputs, precise=True)
    made = kernels(lower(ahead(of, widths)), apart=True)
    moves = [s for s in walk(made[0].body) if isinstance(s, Move)]
    assert len(moves) == 4 and all(s.apart for s in moves) and sum(isinstance(s, Wait) for s in walk(made[0].body)) == 1
    assert problems(of, want, results(made, of, inputs)) == []
    launches = Launches.from_bytes(generate(lower(ahead(of, widths)), A100).code.data)
    assert len(re.findall(r"cp\.async\.ca\.shared\.global", launches.text)) >= 4 and "cp.async.wait_all" in launches.text
    found, _ = outputs(launches, of, inputs)
    assert problems(of, want, found) == []


def test_the_features_know() -> None:
    of = workload()
    candidate = ahead(of)
    for device, there in (("a100", 1.0), ("t4", 0.0)):
        (features,) = extract_rows([(candidate.sketch, candidate.decisions)], NAMED[device]).matrices()
        assert features.raw("fetched_apart")[0, 0] == there and features.raw("barriers")[0, 0] == pytest.approx(3)  # one a round


def test_what_is_too_small_is_copied_at_once() -> None:
    """A single f16: no machine has a copy of two bytes that goes on by itself."""
    of = workload("f16")
    (kernel,) = kernels(lower(ahead(of, (1, 1))), apart=True)
    assert not any(isinstance(s, (Move, Wait)) for s in walk(kernel.body))


def test_every_fault_is_noticed() -> None:
    of = workload()
    inputs = random_inputs(of, 0)
    want = evaluate(of, inputs, precise=True)
    made = kernels(lower(ahead(of)), apart=True)
    assert sum(what.startswith("Wait") for what, _ in faults(made[0])) == 1
    tried, missed = noticed(made, lambda faulty: problems(of, want, results(faulty, of, inputs)))
    assert tried >= 2 and not missed


def test_a_wait_left_out_of_the_ptx_is_noticed() -> None:
    of = workload()
    inputs = random_inputs(of, 0)
    made = Launches.from_bytes(generate(lower(ahead(of)), A100).code.data)
    text = re.sub(r"cp\.async\.wait_all\s*;", "", made.text)
    assert text != made.text
    found, _ = outputs(Launches(made.launches, made.scratch, text, "ptx"), of, inputs)
    assert problems(of, evaluate(of, inputs, precise=True), found)


def test_who_has_them() -> None:
    """Machines without copy at once; so do texts without a word for it, and all say the same."""
    of = workload()
    for device, there in (("a100", True), ("h100", True), ("rtx5090", True), ("t4", False)):
        text = Launches.from_bytes(generate(lower(ahead(of)), NAMED[device]).code.data).text
        assert ("cp.async" in text) == there
        if ptxas.knows(NAMED[device].architecture):
            assert ptxas.compiled(text, NAMED[device].architecture)
    assert ".turn" not in generate(lower(ahead(of)), NAMED["opencl"]).code.texts["kernels"]()  # which does not even fetch ahead
    made = kernels(lower(ahead(of)), apart=True)
    assert "cp.async.wait_all" in source(made, DIALECTS["cuda"])
    for name in ("opencl", "hip"):
        assert "cp.async" not in source(made, DIALECTS[name])
