"""The PTX of random candidates in the interpreter: right, without races, in bounds; and it does what the features say."""

from __future__ import annotations

import collections
import re

import numpy as np
import pytest
from tests.backends.gpu import products
from tests.backends.gpu.drawn import KINDS, WORKLOADS, candidates, problems
from tests.backends.gpu.ptx.machine import run
from tests.backends.gpu.ptx.memory import Memory
from tests.backends.gpu.ptx.parse import PtxError, parse

from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.generate import generate
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.simt.ir import laid_out
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.ir import Program
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.sketch import Candidate

A100 = NAMED["a100"]


def launches_of(candidate: Candidate) -> Launches:
    return Launches.from_bytes(generate(lower(candidate), A100).code.data)


def outputs(
    launches: Launches, workload: Workload, inputs: dict[str, np.ndarray]
) -> tuple[list[np.ndarray], list[collections.Counter[str]]]:
    """The results of all launches, and what each of them did."""
    memory, module = Memory(1 << 22), parse(launches.text)
    at = [memory.put(inputs[b.name]) for b in workload.inputs]
    results = [workload.buffers[name] for name in workload.outputs]
    at += [memory.room(b.bytes) for b in results] + [memory.room(size) for size in launches.scratch]
    counts = [run(module[one.kernel], memory, one.grid, one.block, [at[n] for n in one.arguments]) for one in launches.launches]
    first = len(workload.inputs)
    arrays = [
        memory.get(at[first + n], _numpy(b.dtype), b.bytes // _numpy(b.dtype).itemsize).reshape(b.shape)
        for n, b in enumerate(results)
    ]
    return arrays, counts


def _numpy(name: str) -> np.dtype:
    return np.dtype(dtype(name).numpy)


def check(name: str, candidate: Candidate) -> list[str]:
    workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    found, _ = outputs(launches_of(candidate), workload, inputs)
    return problems(workload, evaluate(workload, inputs, precise=True), found)


@pytest.mark.parametrize("name", ["matmul-small", "C2D-small", "softmax-small", "DEP-small", "max_pool-small", "layer_norm-small"])
def test_some_of_each_kind(name: str) -> None:
    """The two with the least code of eight: what takes longer is for `make test-gpu`."""
    drawn = sorted(candidates(WORKLOADS[name], 8, 5, A100), key=lambda c: laid_out_in(lower(c)))
    for candidate in drawn[:2]:
        assert check(name, candidate) == []


def laid_out_in(program: Program) -> int:
    return sum(laid_out(k.body) for k in kernels(program))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(19))
@pytest.mark.parametrize("name", KINDS)
def test_many_of_each_kind(name: str, seed: int) -> None:
    (candidate,) = candidates(WORKLOADS[name], 1, 1000 + seed, A100)
    assert check(name, candidate) == []


def test_what_is_counted_is_what_the_features_say() -> None:
    """Multiply-adds, sectors and wavefronts of a product, in the code and in the features."""
    workload = products.workload(64, 64, 32)
    inputs = random_inputs(workload, 0)
    for sizes in (
        {"vthread": (2, 1), "thread": (4, 8), "tile": (2, 4), "deep": (2, 4), "fetch": (2, 4)},
        {"vthread": (1, 1), "thread": (8, 8), "tile": (4, 4), "deep": (1, 8), "fetch": (4, 4)},
        {"vthread": (1, 2), "thread": (2, 16), "tile": (4, 2), "deep": (4, 4), "fetch": (1, 2)},
    ):
        made = products.candidate(64, 64, 32, **sizes)
        found, (counts,) = outputs(launches_of(made), workload, inputs)
        assert problems(workload, evaluate(workload, inputs, precise=True), found) == []
        (features,) = extract_rows([(made.sketch, made.decisions)], A100).matrices()

        def told(name: str) -> float:
            return float(features.raw("blocks")[0, 0] * features.raw(name)[0, 0])  # noqa: B023

        warps = float(features.raw("warps")[0, 0])
        assert counts["fma"] == pytest.approx(told("multiply_adds"), rel=1e-3)
        assert counts["bar"] + counts["barrier"] == pytest.approx(told("barriers") * warps, rel=0.1)
        assert counts["load sectors"] == pytest.approx(told("global_load_sectors"), rel=1e-3)
        assert counts["store sectors"] == pytest.approx(told("global_store_sectors"), rel=1e-3)
        assert counts["ld.global"] == pytest.approx(told("global_loads"), rel=1e-3)
        assert counts["ld.shared"] == pytest.approx(told("shared_loads"), rel=0.05)
        fronts = counts["load wavefronts"] + counts["store wavefronts"]
        assert fronts == pytest.approx(told("shared_wavefronts"), rel=0.05)


def test_steps_that_are_no_multiple_of_four_elements() -> None:
    """Three elements in each round of a loop: every second round begins where two cannot be loaded at once."""
    workload = products.workload(32, 32, 36)
    inputs = random_inputs(workload, 0)
    made = products.candidate(32, 32, 36, thread=(4, 8), tile=(2, 4), deep=(2, 3), unroll=3)
    found, _ = outputs(launches_of(made), workload, inputs)
    assert problems(workload, evaluate(workload, inputs, precise=True), found) == []


def test_every_barrier_is_needed() -> None:
    """Each barrier of a product left out in the PTX: a race."""
    made = products.candidate(32, 32, 32, thread=(4, 8), tile=(2, 2), deep=(2, 4))
    launches = launches_of(made)
    barriers = list(re.finditer(r"\n\s*(bar\.sync|barrier)[^;]*;", launches.text))
    noticed = 0
    for one in barriers:
        text = launches.text[: one.start()] + launches.text[one.end() :]
        faulty = Launches(launches.launches, launches.scratch, text, "ptx")
        workload = products.workload(32, 32, 32)
        try:
            outputs(faulty, workload, random_inputs(workload, 0))
        except PtxError as problem:
            noticed += "race" in str(problem)
    assert len(barriers) >= 2 and noticed >= 0.95 * len(barriers)
