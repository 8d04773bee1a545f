"""The default schedule, and the space around it, of shapes at the edge: empty, of one element, of many stages."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu import default
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.population.seeds import seeds
from tensorsmith.space.rules import base
from tensorsmith.space.sketch import rewrite
from tensorsmith.targets.target import native


def matmul(m: int, n: int, depth: int, factor: tuple[int, ...] | None = None) -> Workload:
    a, b = ts.placeholder((m, depth), name="A"), ts.placeholder((depth, n), name="B")
    k = ts.reduce_axis(depth, name="k")
    if factor is None:
        return ts.workload([a, b, ts.compute((m, n), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
    f = ts.placeholder(factor, name="F")
    at = tuple(0 for _ in factor)
    return ts.workload([a, b, f, ts.compute((m, n), lambda i, j: ts.sum(a[i, k] * b[k, j] * f[at], axis=k), name="C")])


@pytest.mark.parametrize(
    "workload",
    [matmul(5, 3, 0), matmul(0, 3, 4), matmul(64, 1, 33), matmul(1, 64, 33), matmul(64, 17, 33, ()), matmul(64, 17, 33, (1,))],
    ids=["no depth", "no rows", "one column", "one row", "scalar operand", "operand of one element"],
)
def test_default_samples_and_seeds_are_built_and_right(workload):
    inputs = random_inputs(workload)
    want = evaluate(workload, inputs, precise=True)["C"]
    space = space_of(workload, native())
    candidates = [
        default_candidate(workload, native()),
        *space.candidates(sample(space, 12, np.random.default_rng(0))),
        *list(space.candidates(seeds(space)))[:4],
    ]
    for candidate in candidates:
        assert_close(workload, "C", build(candidate)(**inputs), want)


def test_a_long_chain_is_rewritten_once_and_not_from_the_start_at_every_look(monkeypatch):
    applied = []

    def counted(workload, rewrites):
        applied.extend(rewrites)
        return rewrite.apply_rewrites(workload, rewrites)

    monkeypatch.setattr(default, "apply_rewrites", counted)
    monkeypatch.setattr(base, "apply_rewrites", counted)
    tensor = first = ts.placeholder((31,), name="A")
    for n in range(30):
        tensor = ts.compute((31,), lambda i, t=tensor: t[i] * 0.5 + t[30 - i], name=f"S{n}")
        tensor = ts.compute((31,), lambda i, t=tensor: t[i] + 1.0, name=f"T{n}")
    workload = ts.workload([first, tensor])
    assert default_candidate(workload, native()).sketch.rewrites
    assert len(space_of(workload, native()).plans) == 1
    assert len(applied) < 4 * len(workload.stages)


def test_few_results_of_a_long_reduction_whose_only_axis_gives_rows():
    """Lanes run along the reduction, and the last axis, of two elements, is also that of the rows."""
    k = ts.reduce_axis(17, "k")
    table, wanted = ts.placeholder((17,), name="A"), ts.placeholder((2,), name="B")
    found = ts.compute((2,), lambda i: ts.min(ts.select(table[k] >= wanted[i], table[k], 9.0), axis=k), name="C")
    workload = ts.workload([table, wanted, found])
    candidate = default_candidate(workload, native())
    inputs = random_inputs(workload)
    assert_close(workload, "C", build(candidate)(**inputs), evaluate(workload, inputs, precise=True)["C"])
