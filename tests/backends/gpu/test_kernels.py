"""Kernels of random candidates in the interpreter: right, without races, and with no barrier or bound that nobody needs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.gpu.drawn import KINDS, OPENCL, WORKLOADS, candidates, problems
from tests.backends.gpu.faults import noticed

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.gpu.simt.interpret import run
from tensorsmith.backends.gpu.simt.ir import Barrier, For, Kernel, walk
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.space.population.sampling import sample_plan
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch

SMALL = OPENCL.with_facts(warp=4, threads=16)  # so that interpreting takes little


def results(made: list[Kernel], workload: Workload, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of kernels, run one after the other."""
    memory = {name: array.reshape(-1) for name, array in inputs.items()}
    for kernel in made:
        for a in kernel.arguments:
            if a.name not in memory:
                memory[a.name] = np.full(a.elements, 77, dtype(a.dtype).numpy)
        run(kernel, memory)
    return [memory[name].reshape(workload.buffers[name].shape) for name in workload.outputs]


def drawn(name: str, seed: int) -> tuple[Workload, Candidate, dict[str, np.ndarray], dict[str, np.ndarray]]:
    workload = WORKLOADS[name]
    (candidate,) = candidates(workload, 1, seed, SMALL)
    inputs = random_inputs(workload, 0)
    return workload, candidate, inputs, evaluate(workload, inputs, precise=True)


@pytest.mark.parametrize("name", ["matmul-small", "C1D-small", "softmax-small", "max_pool-small", "NRM-small", "T1D-small"])
def test_kernels_are_right(name: str) -> None:
    workload, candidate, inputs, want = drawn(name, 2)
    assert problems(workload, want, results(kernels(lower(candidate)), workload, inputs)) == []


def test_threads_that_are_no_power_of_two() -> None:
    """Seven threads reduce a row together."""
    x, k = ts.placeholder((3, 17), name="X"), ts.reduce_axis(17, name="k")
    workload = ts.workload([x, ts.compute((3,), lambda i: ts.sum(x[i, k], axis=k), name="S")])
    inputs = random_inputs(workload, 0)
    nest = Nest("S", "i.0@block | k.0 k.1@thread")
    candidate = Candidate(Sketch(workload, (nest,)).check(), {"S.k.1": 7, "S.unroll": 1})
    made = kernels(lower(candidate))
    assert made[0].block == 7
    assert problems(workload, evaluate(workload, inputs, precise=True), results(made, workload, inputs)) == []


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("number", [0, 1])
def test_gaps_fetching_ahead_and_split_reductions(number: int, buffers: int) -> None:
    """What only our rules have: gaps between rows, tiles that are fetched while others are used, partial results of two blocks."""
    a, b, k = ts.placeholder((6, 300), name="A"), ts.placeholder((300, 5), name="B"), ts.reduce_axis(300, name="k")
    workload = ts.workload([a, b, ts.compute((6, 5), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
    inputs = random_inputs(workload, 0)
    plans = [p for p in space_of(workload, SMALL).plans if "C.cache.A.pad" in p.names or "C.rf.cache.A.pad" in p.names]
    plan = plans[number]
    rows = sample_plan(plan, 1, np.random.default_rng(number))
    for name, column in plan.names.items():
        if name.endswith(".pad"):
            rows[:, column] = 3
        elif name.endswith(".buffers"):
            rows[:, column] = buffers
        elif name.endswith((".k.1", ".k.2")):
            rows[:, column] = 4  # so that there are rounds
    made = kernels(lower(plan.candidate(rows[0])))
    assert len(made) == 1 + number
    loop = next(s for s in walk(made[0].body) if isinstance(s, For) and s.name.endswith(".k.0"))
    assert sum(isinstance(s, Barrier) for s in loop.body) == 3 - buffers  # one of two is left
    assert problems(workload, evaluate(workload, inputs, precise=True), results(made, workload, inputs)) == []


def test_one_point_too_many() -> None:
    """Four threads for three points: nothing is stored for the fourth."""
    x = ts.placeholder((3,), name="X")
    workload = ts.workload([x, ts.compute((3,), lambda i: x[i] + 1.0, name="Y")])
    inputs = random_inputs(workload, 0)
    candidate = Candidate(Sketch(workload, (Nest("Y", "i.0@block i.1@thread |"),)).check(), {"Y.i.1": 2})
    assert problems(workload, evaluate(workload, inputs, precise=True), results(kernels(lower(candidate)), workload, inputs)) == []


@pytest.mark.parametrize("name", ["softmax-small", "matmul-i32-small"])
def test_the_loop_program_says_the_same(name: str) -> None:
    """The other interpreter runs the loops of threads one after the other, each fetching all it needs by itself."""
    if name == "matmul-i32-small":
        a, b, k = ts.placeholder((5, 6), name="A"), ts.placeholder((6, 7), name="B"), ts.reduce_axis(6, name="k")
        workload = ts.workload([a, b, ts.compute((5, 7), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
    else:
        workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    want = evaluate(workload, inputs, precise=True)
    (candidate,) = candidates(workload, 1, 4, OPENCL.with_facts(warp=4, threads=4))
    got = interpret(lower(candidate), inputs)
    assert problems(workload, want, [got[n] for n in lower(candidate).workload.outputs]) == []


@pytest.mark.parametrize("name", ["matmul-small", "softmax-small", "C1D-small"])
def test_every_fault_is_noticed(name: str) -> None:
    """Each barrier left out, each bound one too high: a race, an access outside, or another answer."""
    workload, candidate, inputs, want = drawn(name, 2)
    made = kernels(lower(candidate))
    tried, missed = noticed(made, lambda faulty: problems(workload, want, results(faulty, workload, inputs)))
    assert tried >= 3 and len(missed) <= 0.05 * tried, missed


def test_kinds_are_of_the_catalogue() -> None:
    assert set(KINDS) <= set(WORKLOADS)


@pytest.mark.parametrize(("width", "steps"), [(1, 3), (2, 2), (1, 7), (3, 5)])
def test_vectors_that_go_on_across_rows_of_a_tile(width: int, steps: int) -> None:
    """A thread takes several steps in a row of a tile that is fetched, however its rows end."""
    a, b, k = ts.placeholder((7, 30), name="A"), ts.placeholder((30, 6), name="B"), ts.reduce_axis(30, name="k")
    workload = ts.workload([a, b, ts.compute((7, 6), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
    inputs = random_inputs(workload, 0)
    plan = next(p for p in space_of(workload, SMALL, "ansor").plans if "C.cache.A.run" in p.names)
    rows = sample_plan(plan, 1, np.random.default_rng(5))
    for name, column in plan.names.items():
        if name in ("C.cache.A.run", "C.cache.B.run"):
            rows[:, column] = steps
        elif name in ("C.cache.A.d1.1", "C.cache.B.d1.1"):
            rows[:, column] = width
        elif name.endswith((".k.1", ".k.2")):
            rows[:, column] = 3
    made = kernels(lower(plan.candidate(rows[0])))
    fetches = [s for s in walk(made[0].body) if isinstance(s, For) and s.name.endswith(".own")]
    assert fetches and {s.count for s in fetches} == {steps}
    assert problems(workload, evaluate(workload, inputs, precise=True), results(made, workload, inputs)) == []


@pytest.mark.parametrize("threads", [1, 4, 7, 13, 16, 60])
def test_threads_share_a_reduction_over_several_axes(threads: int) -> None:
    x = ts.placeholder((3, 2, 5, 7), name="X")
    h, w = ts.reduce_axis(5, name="h"), ts.reduce_axis(7, name="w")
    workload = ts.workload([x, ts.compute((3, 2), lambda n, c: ts.sum(x[n, c, h, w], axis=(h, w)), name="S")])
    inputs = random_inputs(workload, 0)
    (sketch,) = [p.sketch for p in space_of(workload, SMALL, "ansor").plans if "h.0@thread w.0@thread" in str(p.sketch.nest("S"))]
    candidate = Candidate(sketch, {"S.threads": threads, "S.unroll": 1})
    made = kernels(lower(candidate))
    assert made[0].block == threads and made[0].grid == 6
    assert problems(workload, evaluate(workload, inputs, precise=True), results(made, workload, inputs)) == []
