"""Kernels of random candidates in the interpreter: right, without races, and with no barrier or bound that nobody needs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.gpu.drawn import KINDS, OPENCL, WORKLOADS, candidates, problems
from tests.backends.gpu.faults import faults

import tensorsmith as ts
from tensorsmith.backends.gpu.simt.interpret import Wrong, run
from tensorsmith.backends.gpu.simt.ir import Kernel
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.sketch import Candidate

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
    tried, missed = 0, []
    for n, kernel in enumerate(made):
        for what, faulty in faults(kernel):
            tried += 1
            try:
                if not problems(workload, want, results([*made[:n], faulty, *made[n + 1 :]], workload, inputs)):
                    missed.append(what)
            except Wrong:
                pass
    assert tried >= 3 and len(missed) <= 0.05 * tried, missed


def test_kinds_are_of_the_catalogue() -> None:
    assert set(KINDS) <= set(WORKLOADS)
