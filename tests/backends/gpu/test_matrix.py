"""Products by matrix instructions: right in both interpreters, taken by compilers, counted as they are."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from tests.backends.gpu.drawn import problems
from tests.backends.gpu.faults import noticed
from tests.backends.gpu.test_generated_ptx import outputs
from tests.backends.gpu.test_kernels import results

import tensorsmith as ts
from tensorsmith.backends import sketches, space_of
from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.generate import check_limits, generate
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.matrix import matrix_product
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.printers.c import source
from tensorsmith.backends.gpu.printers.dialects import DIALECTS
from tensorsmith.backends.gpu.simt.interpret import Wrong
from tensorsmith.backends.gpu.simt.ir import For, If, Multiply, Statement, walk
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.backends.gpu.tactics.roots import roots, shared_bytes
from tensorsmith.build import build_kernel
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Binary, Const
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import conv
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.records.names import renamed
from tensorsmith.space.population.evolve import crossover, mutate
from tensorsmith.space.population.population import Plan
from tensorsmith.space.population.sampling import Sampling, sample_plan
from tensorsmith.space.sketch.loops import Loops
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.space.sketch.sketch import Candidate

A100 = NAMED["a100"]


def product(
    m: int, n: int, k: int, batch: int = 0, transposed: tuple[bool, bool] = (False, False), after: str = "", kind: str = "f16"
) -> Workload:
    """A product of matrices of f16 with sums in f32, `after` which something is done to each result."""
    lead = (batch,) if batch else ()
    a = ts.placeholder((*lead, *((k, m) if transposed[0] else (m, k))), kind, name="A")
    b = ts.placeholder((*lead, *((n, k) if transposed[1] else (k, n))), kind, name="B")
    axis = ts.reduce_axis(k, name="k")

    def value(*where: ts.Expr) -> ts.Expr:
        *first, i, j = where
        left, right = (
            a[(*first, axis, i) if transposed[0] else (*first, i, axis)],
            b[(*first, j, axis) if transposed[1] else (*first, axis, j)],
        )
        return ts.sum(ts.cast("f32", left) * ts.cast("f32", right), axis=axis)

    c = ts.compute((*lead, m, n), value, name="C")
    if not after:
        return ts.workload([a, b, c])
    bias = ts.placeholder((n,), name="bias")
    d = ts.compute(c.shape, lambda *x: ts.cast("f16", ts.maximum(c[x] + bias[x[-1]], 0.0)), name="D")
    return ts.workload([a, b, bias, d])


def convolution() -> Workload:
    """Along rows of an image; padding is fetched as what it is."""
    x, weight = ts.placeholder((1, 3, 16, 16), "f16", name="X"), ts.placeholder((3, 3, 16, 16), "f16", name="W")
    return ts.workload([x, weight, conv.conv2d(x, weight, stride=1, padding=1)])


WORKLOADS = {
    "plain": product(32, 48, 64),
    "transposed": product(32, 16, 32, transposed=(True, True)),
    "right transposed": product(48, 16, 32, transposed=(False, True)),
    "batched": product(16, 24, 48, batch=3),
    "nothing divides": product(35, 27, 80),
    "fused": product(32, 40, 32, after="relu"),
    "convolution": convolution(),
    "split": product(32, 40, 512),  # few results and many steps: over several blocks, whose parts a second kernel adds up
}


def plan_of(workload: Workload, target: object = A100, split: bool = False) -> Plan:
    """The sketch whose tiles matrix instructions compute, of the whole reduction or of its parts."""
    plans = [p for p in space_of(workload, target).plans if any(root.by_matrix for root in roots(p))]
    (found,) = [p for p in plans if split == any(isinstance(r, Rfactor) for r in p.sketch.rewrites)]
    return found


def drawn(workload: Workload, count: int, seed: int) -> list[Candidate]:
    plan = plan_of(workload, A100.with_facts(threads=128), split=workload is WORKLOADS["split"])
    return [plan.candidate(row) for row in sample_plan(plan, count, np.random.default_rng(seed))]


@pytest.mark.parametrize("name", WORKLOADS)
def test_kernels_are_right(name: str) -> None:
    workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    want = evaluate(workload, inputs, precise=True)
    for candidate in drawn(workload, 3, 1):
        made = kernels(lower(candidate), apart=True)
        assert any(isinstance(s, Multiply) for s in walk(made[0].body))
        assert problems(workload, want, results(made, workload, inputs)) == []


def test_the_loop_program_says_the_same() -> None:
    """The other interpreter knows nothing of lanes and instructions: for it these are loops."""
    workload = product(16, 8, 16)
    inputs = random_inputs(workload, 0)
    program = lower(drawn(workload, 1, 1)[0])
    got = interpret(program, inputs)
    assert problems(workload, evaluate(workload, inputs, precise=True), [got[n] for n in program.workload.outputs]) == []


def check_ptx(workload: Workload, candidate: Candidate) -> None:
    inputs = random_inputs(workload, 0)
    launches = Launches.from_bytes(generate(lower(candidate), A100).code.data)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in launches.text
    found, _ = outputs(launches, workload, inputs)
    assert problems(workload, evaluate(workload, inputs, precise=True), found) == []


@pytest.mark.parametrize("name", WORKLOADS)
def test_ptx_is_right(name: str) -> None:
    check_ptx(WORKLOADS[name], drawn(WORKLOADS[name], 1, 2)[0])


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_operands_are_loaded_by_rows(turned: tuple[bool, bool]) -> None:
    """Whichever way they lie, where rows begin at multiples of sixteen bytes; else each lane loads what is its own."""
    workload = product(32, 32, 32, transposed=turned)
    inputs = random_inputs(workload, 0)
    want = evaluate(workload, inputs, precise=True)
    candidate = drawn(workload, 1, 2)[0]
    for pad, rows in ((0, True), (8, True), (4, False)):
        candidate = replace(candidate, decisions={**candidate.decisions, "C.cache.A.pad": pad, "C.cache.B.pad": pad})
        found = [s for s in walk(kernels(lower(candidate))[0].body) if isinstance(s, Multiply)]
        assert all((s.left_row is not None) == (s.right_row is not None) == rows for s in found)
        launches = Launches.from_bytes(generate(lower(candidate), A100).code.data)
        got, (counts,) = outputs(launches, workload, inputs)
        assert problems(workload, want, got) == []
        assert (counts["ldmatrix"] == counts["ld.shared"]) == rows
        if rows:
            assert [(s.left_row.across, s.right_row.across) for s in found[:1]] == [(turned[0], not turned[1])]
            for pieces, across in ((4, turned[0]), (2, not turned[1])):
                assert f"ldmatrix.sync.aligned.m8n8.x{pieces}{'.trans' if across else ''}.shared.b16" in launches.text


@pytest.mark.parametrize("operand", ["left_row", "right_row"])
def test_rows_that_are_others(operand: str) -> None:
    workload = product(32, 32, 32)
    candidate = drawn(workload, 1, 2)[0]
    given = {"C.cache.A.pad": 8, "C.cache.B.pad": 8, "C.cache.buffers": 1}
    (kernel,) = kernels(lower(replace(candidate, decisions={**candidate.decisions, **given})))

    def changed(s: Statement, distance: int) -> Statement:
        if isinstance(s, (For, If)):
            return replace(s, body=tuple(changed(x, distance) for x in s.body))
        if not isinstance(s, Multiply):
            return s
        row = getattr(s, operand)
        first = replace(row.first, indices=(Binary("add", row.first.indices[0], Const(distance, "i64")),))
        return replace(s, **{operand: replace(row, first=first)})

    for distance, message in ((8, "have other elements than they name|has .* elements"), (4, "does not begin at a multiple of 8")):
        faulty = replace(kernel, body=tuple(changed(s, distance) for s in kernel.body))
        with pytest.raises(Wrong, match=message):
            results([faulty], workload, random_inputs(workload, 0))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", WORKLOADS)
def test_more_ptx_is_right(name: str, seed: int) -> None:
    check_ptx(WORKLOADS[name], drawn(WORKLOADS[name], 1, 100 + seed)[0])


def test_what_is_counted_is_what_the_features_say() -> None:
    workload = product(64, 64, 64)
    inputs = random_inputs(workload, 0)
    for candidate, pad in zip(drawn(workload, 4, 3), (0, 2, 4, 8)):  # at odd places LLVM still loads some pairs at once
        given = {"C.cache.A.pad": pad, "C.cache.B.pad": pad, "C.cache.buffers": 1}  # of copies apart no wavefronts are counted
        candidate = replace(candidate, decisions={**candidate.decisions, **given})
        _, (counts,) = outputs(Launches.from_bytes(generate(lower(candidate), A100).code.data), workload, inputs)
        (features,) = extract_rows([(candidate.sketch, candidate.decisions)], A100).matrices()

        def told(name: str) -> float:
            return float(features.raw("blocks")[0, 0] * features.raw(name)[0, 0])  # noqa: B023

        assert counts["mma"] * 2048 == pytest.approx(told("matrix_multiply_adds"), rel=1e-3)
        assert counts["ld.shared"] == pytest.approx(told("shared_loads"), rel=1e-3)
        assert counts["load wavefronts"] + counts["store wavefronts"] == pytest.approx(told("shared_wavefronts"), rel=1e-3)
        assert told("multiply_adds") == 0


def test_every_row_is_within_the_limits() -> None:
    """Drawn, mutated or crossed: tiles stay those of matrix instructions, and fit."""
    rng = np.random.default_rng(4)
    for workload in (product(256, 192, 128), product(16, 8, 16), product(100, 60, 48, batch=2)):
        plan = plan_of(workload)
        rows = [sample_plan(plan, 8, rng, Sampling(kind)) for kind in ("uniform", "target")]
        for row in np.concatenate([*rows, mutate(plan, rows[1], rng), crossover(plan, *rows, rng)]):
            (kernel,) = kernels(lower(plan.candidate(row)))
            check_limits(kernel, A100)
            assert kernel.block % 32 == 0
            found = plan.geometry.measure(row[None])
            assert int(shared_bytes(plan, roots(plan)[0], row[None], found)[0]) == kernel.shared_bytes


def test_every_fault_is_noticed() -> None:
    """Each barrier and each wait left out, each bound one too high.

    A tile too many that is fetched ahead is no fault where padding guards its reads: nobody uses it.
    """
    tried, missed = 0, []
    for name in ("nothing divides", "plain", "transposed", "batched"):
        workload = WORKLOADS[name]
        inputs = random_inputs(workload, 0)
        want = evaluate(workload, inputs, precise=True)
        for candidate in drawn(workload, 3, 5):
            made = kernels(lower(candidate), apart=True)
            more, unseen = noticed(made, lambda faulty: problems(workload, want, results(faulty, workload, inputs)))  # noqa: B023
            harmless = [what for what in unseen if name == "nothing divides" and re.search(r"\.k\.0 \+ 1 < \d+$", what)]
            tried, missed = tried + more - len(harmless), missed + [what for what in unseen if what not in harmless]
    assert tried >= 30 and len(missed) <= 0.05 * tried, missed


def test_split_reductions() -> None:
    """In every number of parts that it may be in, each a whole number of instructions; others are not computed like this."""
    workload = WORKLOADS["split"]
    plan = plan_of(workload, split=True)
    (choice,) = [c for c in plan.sketch.choices if c.kind == "factor"]
    assert choice.options == ("2", "4", "8", "16")
    assert len({c.sketch.rewrites[0] for c in drawn(workload, 12, 8)}) > 2  # of which each is drawn
    options = [[c.options for c in s.choices if c.kind == "factor"] for s in sketches(product(32, 40, 320), "default", A100)]
    assert [("2", "4")] in options and not any(o and o[0] != ("2", "4") for o in options)  # 320 has twenty times sixteen steps
    odd = sketches(product(32, 40, 272), "default", A100)  # seventeen times
    assert [sum(any("matrix" in n.also for n in s.nests) for s in odd if bool(s.rewrites and "rfactor" in str(s)) == parted)
            for parted in (False, True)] == [1, 0]  # fmt: skip


def test_lanes_that_do_not_take_part() -> None:
    workload = WORKLOADS["plain"]
    (kernel,) = kernels(lower(drawn(workload, 1, 1)[0]))
    with pytest.raises(Wrong, match="some lanes of a warp"):
        results([replace(kernel, block=kernel.block - 1)], workload, random_inputs(workload, 0))


def test_which_products_and_machines_have_them() -> None:
    def by_matrix(workload: Workload, target: str = "a100", rules: str = "default") -> int:
        return sum(any("matrix" in n.also for n in s.nests) for s in sketches(workload, rules, NAMED[target]))

    plain = product(64, 64, 64)
    assert [by_matrix(plain, t) for t in ("a100", "h100", "rtx5090", "t4", "v100", "opencl", "mi300x")] == [1, 1, 1, 0, 0, 0, 0]
    assert by_matrix(plain, rules="ansor") == 0
    assert by_matrix(product(64, 64, 64, kind="f32")) == 0
    assert by_matrix(product(64, 64, 40)) == 0  # steps of sixteen
    assert by_matrix(product(64, 4, 64)) == by_matrix(product(8, 64, 64)) == 0  # no whole tile
    found = matrix_product(product(64, 64, 64, batch=2).stages[0])
    assert found is not None and (found.rows, found.columns, found.steps) == ("i1", "i2", "k")
    x = ts.placeholder((64, 64), "f16", name="X")
    k = ts.reduce_axis(64, name="k")
    own = ts.compute((64, 64), lambda i, j: ts.sum(ts.cast("f32", x[i, k]) * ts.cast("f32", x[k, j]), axis=k), name="Y")
    assert by_matrix(ts.workload([x, own])) == 0  # a tensor that is read at two places has no one tile


def test_the_default_schedule_uses_them() -> None:
    a, b = ts.placeholder((512, 512), "f16", name="A"), ts.placeholder((512, 512), "f16", name="B")
    k = ts.reduce_axis(512, name="k")
    c = ts.compute((512, 512), lambda i, j: ts.sum(ts.cast("f32", a[i, k]) * ts.cast("f32", b[k, j]), axis=k), name="C")
    kernel = ts.compile([a, b, c], target="a100")
    assert all(word in kernel.source("ptx") for word in ("mma.sync", "cp.async", "ldmatrix"))
    assert "ld.shared" not in kernel.source("ptx") and "mma.sync" in kernel.source("cuda")
    for text in ("opencl", "hip", "amdgcn", "spirv"):
        with pytest.raises(UserError, match="matrix instructions of NVIDIA's GPUs"):
            kernel.source(text)
    assert "fma" in ts.compile([a, b, c], target="t4").source("ptx")


def test_lanes_that_are_not_those_of_a_tile() -> None:
    workload = product(64, 64, 64)
    candidate = drawn(workload, 1, 1)[0]
    with pytest.raises(Refusal, match="do not have what matrix instructions give them"):
        kernels(lower(replace(candidate, decisions={**candidate.decisions, "C.i0.4": 4})))


def test_sizes_that_are_part_of_the_structure() -> None:
    text = "i.0@block i.1@thread=8 j.0!=2 | i.2=2 k.0"
    loops = Loops.read(text)
    assert {str(loop): size for loop, size in loops.sizes.items()} == {"i.1": 8, "j.0": 2, "i.2": 2}
    assert str(replace(loops, text=None)) == text and Loops.read(str(replace(loops, text=None))) == loops
    for wrong in ("i.0 i.1=x", "i.0 i.1=0", "i.0 i.1="):
        with pytest.raises(UserError, match="write a number"):
            Loops.read(wrong)
    workload = WORKLOADS["batched"]
    candidate = drawn(workload, 1, 1)[0]
    assert str(lower(Candidate.from_json(workload, candidate.to_json()))) == str(lower(renamed(candidate, workload)))


@pytest.mark.gpu
@pytest.mark.skipif(ptxas.found() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("device", ["a100", "h100", "rtx5090"])
def test_ptxas_takes_the_code(device: str) -> None:
    target = NAMED[device]
    rng = np.random.default_rng(6)
    for split in (False, True):
        plan = plan_of(product(512, 512, 256), target, split)
        for row in sample_plan(plan, 2, rng):
            candidate = plan.candidate(row)
            launches = Launches.from_bytes(build_kernel(candidate, target).code.data)
            found = ptxas.compiled(launches.text, target.architecture)
            (features,) = extract_rows([(candidate.sketch, candidate.decisions)], target).matrices()
            assert len(found) == 1 + split and "mma.sync" in launches.text
            for n, one in enumerate(launches.launches):
                assert found[one.kernel].spilled_bytes == 0
                assert abs(found[one.kernel].shared_bytes - float(features.raw("shared_bytes")[0, n])) < 16


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", WORKLOADS)
def test_cuda_c_is_right(name: str, tmp_path) -> None:
    """What nvcc makes of it is PTX, which the interpreter runs; ptxas takes that."""
    workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    for candidate in drawn(workload, 2, 7):
        made = kernels(lower(candidate), apart=True)
        (tmp_path / "kernel.cu").write_text(source(made, DIALECTS["cuda"]))
        command = ["nvcc", "-arch=sm_80", "-ptx", "-o", str(tmp_path / "kernel.ptx"), str(tmp_path / "kernel.cu")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "kernel.ptx").read_text()
        assert "mma.sync" in text and ptxas.compiled(text, "sm_80")
        launches = Launches.from_bytes(generate(lower(candidate), A100).code.data)
        found, _ = outputs(replace(launches, text=text), workload, inputs)
        assert problems(workload, evaluate(workload, inputs, precise=True), found) == []
