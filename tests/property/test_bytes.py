"""Random programs on bytes against NumPy: sizes of all kinds, types, ends of ranges, schedules drawn from the space, machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.bytes import PAIRS, Case, built_by_meaning, convolution, matmul

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.batch import extract_groups
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.build import build
from tensorsmith.errors import Refusal
from tensorsmith.lang.define import workload
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.space.population.population import Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)


def random_case(rng: np.random.Generator) -> Case:
    a, b = PAIRS[rng.integers(len(PAIRS))]
    seed = int(rng.integers(1000))
    if rng.random() < 0.6:
        rows, depth, columns = (int(n) for n in rng.choice(SIZES, 3))
        return matmul(rows, depth, columns, a, b, seed, constant=bool(rng.random() < 0.6), bytes_out=bool(rng.random() < 0.4))
    size, channels, outputs = int(rng.choice((1, 3, 5, 8))), int(rng.choice((1, 3, 4, 7, 12))), int(rng.choice((1, 5, 16, 24)))
    fill = int(rng.choice((0, 0, np.iinfo({"i8": "i1", "u8": "u1"}[a]).max)))
    return convolution(size, channels, outputs, int(rng.choice((1, 3))), a, b, seed, int(rng.choice((1, 2))), fill)


def drawn(space: Space, count: int, rng: np.random.Generator) -> list[Candidate]:
    """Candidates of all sketches of a space."""
    return [space.plans[p.plan].candidate(row) for p in sample(space, count, rng) for row in p.matrix]


def check(case: Case, candidate: Candidate, machine, patch) -> None:
    (name,) = case.workload.outputs
    np.testing.assert_array_equal(interpret(lower(candidate), case.arrays)[name], case.wanted, str(candidate))
    made = build(candidate, machine) if machine == native() else built_by_meaning(candidate, machine, patch)
    np.testing.assert_array_equal(made.run(case.arrays)[name], case.wanted, str(candidate))


MACHINES = ["native", "x86-64-v3", "neoverse-n1", "neoverse-v1"]


def run(count: int, seed: int, patch) -> None:
    rng = np.random.default_rng(seed)
    grouped = refused = 0
    for n in range(count):
        machine = native() if n % 2 else ts.Target.named(MACHINES[1 + n // 2 % 3], cores=2)
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


@pytest.mark.parametrize("a, b", PAIRS, ids=lambda v: str(v))
def test_the_largest_products_do_not_saturate(a, b):
    """All bytes at the ends of their types, and a sum that passes the end of i32 wraps around."""
    ends = {"i8": (-128, 127), "u8": (0, 255)}
    base = matmul(5, 70, 40, a, b)
    for x in ends[a]:
        for y in ends[b]:
            arrays = {"A": np.full_like(base.arrays["A"], x), "B": np.full_like(base.arrays["B"], y)}
            case = replace(base, arrays=arrays, wanted=np.full((5, 40), 70 * x * y, np.int32))
            got = build(default_candidate(case.workload, native()), native()).run(case.arrays)
            np.testing.assert_array_equal(got["C"], case.wanted)


@pytest.mark.parametrize(
    "case", [matmul(40, 70, 96, "i8", "i8", bytes_out=True), convolution(9, 7, 24, 3, "u8", "i8")], ids=["matmul", "conv"]
)
def test_features_of_a_population_are_those_of_its_candidates(case):
    machine = ts.Target.named("znver4", cores=2)
    space = space_of(case.workload, machine)
    for population in sample(space, 24, np.random.default_rng(3)):
        plan = space.plans[population.plan]
        for group in plan.groups(population.matrix):
            (together,) = extract_groups([(group.sketch, group.decisions)], machine)
            for n, row in enumerate(group.rows[:2]):
                alone = extract(lower(plan.candidate(population.matrix[row])), machine)
                np.testing.assert_allclose(together.values[n : n + 1], alone.values, rtol=1e-6, atol=1e-6)


def test_features_of_a_group_count_what_the_code_does():
    """A step of the tile multiplies four bytes by one instruction, and loads a group at once."""
    machine = ts.Target.named("znver4", cores=2)
    case = matmul(64, 256, 64, "u8", "i8")
    candidate = default_candidate(case.workload, machine)
    grouped = extract(lower(candidate), machine)
    floats = matmul_of_floats(64, 256, 64)
    plain = extract(lower(default_candidate(floats, machine)), machine)
    assert grouped.raw("reduce_steps").max() * 4 == pytest.approx(plain.raw("reduce_steps").max(), rel=1e-3)
    assert grouped.raw("int_mad").max() * 4 == pytest.approx(plain.raw("float_mad").max(), rel=1e-3)
    assert grouped.raw("load_share_strided").max() == 0


def matmul_of_floats(rows: int, depth: int, columns: int):
    a, b = ts.placeholder((rows, depth), name="A"), ts.placeholder((depth, columns), name="B", constant=True)
    k = ts.reduce_axis(depth, "k")
    return workload([a, b, ts.compute((rows, columns), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
