"""Random programs on bytes against NumPy: sizes of all kinds, types, ends of ranges, schedules drawn from the space, machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.bytes import PAIRS, Case, built_by_meaning, convolution, matmul
from tests.backends.cpu.bytes import drawn as bytes_of

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.batch import extract_groups
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.build import build
from tensorsmith.errors import Refusal
from tensorsmith.lang.define import workload
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.runtime.executable import Executable
from tensorsmith.space.population.population import Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)


def random_case(rng: np.random.Generator) -> Case:
    a, b = PAIRS[rng.integers(len(PAIRS))] if rng.random() < 0.85 else ("i16", "i16")
    seed, small = int(rng.integers(1000)), b == "i8" and bool(rng.random() < 0.3)
    if rng.random() < 0.6 or a == "i16":
        rows, depth, columns = (int(n) for n in rng.choice(SIZES, 3))
        constant, bytes_out = bool(rng.random() < 0.6), bool(rng.random() < 0.4) and a != "i16"
        return matmul(rows, depth, columns, a, b, seed, constant, bytes_out, small_weight=small)
    size, channels, outputs = int(rng.choice((1, 3, 5, 8))), int(rng.choice((1, 3, 4, 7, 12))), int(rng.choice((1, 5, 16, 24)))
    fill = int(rng.choice((0, 0, np.iinfo({"i8": "i1", "u8": "u1"}[a]).max)))
    return convolution(size, channels, outputs, int(rng.choice((1, 3))), a, b, seed, int(rng.choice((1, 2))), fill, small)


def drawn(space: Space, count: int, rng: np.random.Generator) -> list[Candidate]:
    """Candidates of all sketches of a space."""
    return [space.plans[p.plan].candidate(row) for p in sample(space, count, rng) for row in p.matrix]


def made_for(candidate: Candidate, machine: CpuTarget, patch) -> Executable:
    """A kernel for this machine, or by meaning for another one."""
    return build(candidate, machine) if machine == native() else built_by_meaning(candidate, machine, patch)


def check(case: Case, candidate: Candidate, machine, patch) -> None:
    (name,) = case.workload.outputs
    np.testing.assert_array_equal(interpret(lower(candidate), case.arrays)[name], case.wanted, str(candidate))
    np.testing.assert_array_equal(made_for(candidate, machine, patch).run(case.arrays)[name], case.wanted, str(candidate))


MACHINES = ["x86-64-v3", "neoverse-n1", "neoverse-v1", "neoverse-v2"]  # by meaning; every other program is one of this machine


def run(count: int, seed: int, patch) -> None:
    rng = np.random.default_rng(seed)
    grouped = refused = 0
    for n in range(count):
        machine = native() if n % 2 else ts.Target.named(MACHINES[n // 2 % len(MACHINES)], cores=2)
        case = random_case(rng)
        candidates = [default_candidate(case.workload, machine), *drawn(space_of(case.workload, machine), 3, rng)[:3]]
        for candidate in candidates:
            grouped += any(nest.group for nest in candidate.sketch.nests)
            try:
                check(case, candidate, machine, patch)
            except Refusal:
                refused += 1
    assert grouped > count and refused < count / 5


def test_random_programs_on_bytes_are_numpys(monkeypatch):
    run(50, 5, monkeypatch)


@pytest.mark.long
def test_many_random_programs_on_bytes_are_numpys(monkeypatch):
    run(1500, int(np.random.default_rng().integers(1 << 30)), monkeypatch)


@pytest.mark.parametrize("name", ["native", "x86-64-v3"])
@pytest.mark.parametrize("a, b", PAIRS, ids=lambda v: str(v))
def test_the_largest_products_do_not_saturate(a, b, name, monkeypatch):
    """All bytes at the ends of their types, and a sum that passes the end of i32 wraps around."""
    ends = {"i8": (-128, 127), "u8": (0, 255)}
    base = matmul(5, 70, 40, a, b)
    machine = native() if name == "native" else ts.Target.named(name, cores=2)
    made = made_for(default_candidate(base.workload, machine), machine, monkeypatch)
    for x in ends[a]:
        for y in ends[b]:
            arrays = {"A": np.full_like(base.arrays["A"], x), "B": np.full_like(base.arrays["B"], y)}
            case = replace(base, arrays=arrays, wanted=np.full((5, 40), 70 * x * y, np.int32))
            np.testing.assert_array_equal(made.run(case.arrays)["C"], case.wanted)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_copies_of_what_is_no_constant_have_pairs_side_by_side(along, monkeypatch):
    """A large matrix that is computed: its i16 are made where it is laid out in loop order, whichever way it lies."""
    machine = ts.Target.named("x86-64-v3", cores=2)
    rng = np.random.default_rng(8)
    shape = (131, 160) if along == "rows" else (160, 131)
    a, b = ts.placeholder((64, 131), "u8", name="A"), ts.placeholder(shape, "i8", name="B")
    k = ts.reduce_axis(131, "k")
    c = ts.compute(
        (64, 160),
        lambda i, j: ts.sum(ts.cast("i32", a[i, k]) * ts.cast("i32", b[k, j] if along == "rows" else b[j, k]), axis=k),
        name="C",
    )
    candidate = default_candidate(workload([a, b, c]), machine)
    assert "C.B.pack" in {nest.stage for nest in candidate.sketch.nests} and "C.B" not in {n.stage for n in candidate.sketch.nests}
    given = {"A": bytes_of("u8", (64, 131), rng), "B": bytes_of("i8", shape, rng)}
    right = given["B"] if along == "rows" else given["B"].T
    case = Case(candidate.sketch.workload, given, given["A"].astype(np.int32) @ right.astype(np.int32))
    check(case, candidate, machine, monkeypatch)


@pytest.mark.parametrize(
    "case", [matmul(40, 70, 96, "i8", "i8", bytes_out=True), convolution(9, 7, 24, 3, "u8", "i8")], ids=["matmul", "conv"]
)
@pytest.mark.parametrize("name", ["znver4", "x86-64-v3"])
def test_features_of_a_population_are_those_of_its_candidates(case, name):
    machine = ts.Target.named(name, cores=2)
    space = space_of(case.workload, machine)
    for population in sample(space, 24, np.random.default_rng(3)):
        plan = space.plans[population.plan]
        for group in plan.groups(population.matrix):
            (together,) = extract_groups([(group.sketch, group.decisions)], machine)
            for n, row in enumerate(group.rows[:2]):
                alone = extract(lower(plan.candidate(population.matrix[row])), machine)
                np.testing.assert_allclose(together.values[n : n + 1], alone.values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name, steps", [("znver4", 4), ("x86-64-v3", 2)])
def test_features_of_a_group_count_what_the_code_does(name, steps):
    """A step of the tile multiplies four bytes, or two i16, by one instruction, and loads a group at once."""
    machine = ts.Target.named(name, cores=2)
    case = matmul(64, 256, 64, "u8", "i8")
    candidate = default_candidate(case.workload, machine)
    grouped = extract(lower(candidate), machine)
    floats = matmul_of_floats(64, 256, 64)
    plain = extract(lower(default_candidate(floats, machine)), machine)
    assert grouped.raw("reduce_steps").max() * steps == pytest.approx(plain.raw("reduce_steps").max(), rel=1e-3)
    assert grouped.raw("int_mad").max() * steps == pytest.approx(plain.raw("float_mad").max(), rel=1e-3)
    assert grouped.raw("load_share_strided").max() == 0


def matmul_of_floats(rows: int, depth: int, columns: int):
    a, b = ts.placeholder((rows, depth), name="A"), ts.placeholder((depth, columns), name="B", constant=True)
    k = ts.reduce_axis(depth, "k")
    return workload([a, b, ts.compute((rows, columns), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
