"""Winograd's convolution of bytes: exact, whatever the bytes are, and offered where machines multiply them in pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.bytes import PAIRS, Case, built_by_meaning, convolution
from tests.graph.test_integer import drawn, layer, network

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.rewrites.formulations import DIRECT, Formulation, formulation_named, formulations, likely
from tensorsmith.rewrites.winograd import transform_weight
from tensorsmith.space.population.sampling import sample

NAME = "winograd-2"


def of_bytes(case: Case) -> Formulation:
    found = formulations(case.workload, pairs=True)
    assert [f.name for f in found] == [DIRECT, NAME]
    return found[1]


def transformed(f: Formulation, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: f.transforms[n](a) if n in f.transforms else a for n, a in arrays.items()}


def extreme(case: Case, x: str, w: str) -> Case:
    """The same with bytes at the ends of their ranges: the largest sums that there are."""
    arrays = dict(case.arrays)
    for name, end in (("X", x), ("W", w)):
        limits = np.iinfo(arrays[name].dtype)
        arrays[name] = np.full_like(arrays[name], getattr(limits, end))
    return replace(case, arrays=arrays, wanted=evaluate(case.workload, arrays)["C"])


@pytest.mark.parametrize("a, b", PAIRS)
@pytest.mark.parametrize("fill", [0, 3])
def test_it_gives_the_sums_of_bytes_exactly(a, b, fill, monkeypatch):
    drawn = convolution(9, 17, 24, 3, a, b, 5, 1, fill)
    for case in (drawn, *(extreme(drawn, x, w) for x in ("min", "max") for w in ("min", "max"))):
        f = of_bytes(case)
        arrays = transformed(f, case.arrays)
        np.testing.assert_array_equal(evaluate(f.workload, arrays)["C"], case.wanted)
        for machine in (ts.Target.named("x86-64-v3", cores=2), ts.Target.named("x86-64-v2", cores=2)):
            candidate = default_candidate(f.workload, machine)
            np.testing.assert_array_equal(built_by_meaning(candidate, machine, monkeypatch).run(arrays)["C"], case.wanted)
        np.testing.assert_array_equal(interpret(lower(candidate), arrays)["C"], case.wanted)


def test_schedules_of_the_space_give_the_same(monkeypatch):
    case = convolution(8, 16, 24, 3, "u8", "i8", 1)
    f, machine, rng = of_bytes(case), ts.Target.named("x86-64-v3", cores=2), np.random.default_rng(0)
    arrays, space, checked = transformed(f, case.arrays), space_of(f.workload, machine), 0
    for population in sample(space, 6, rng):
        for row in population.matrix[:2]:
            try:
                made = built_by_meaning(space.plans[population.plan].candidate(row), machine, monkeypatch)
            except Refusal:
                continue
            np.testing.assert_array_equal(made.run(arrays)["C"], case.wanted)
            checked += 1
    assert checked >= 4


def test_what_is_not_small_counts_as_zero_here_too():
    case = convolution(8, 16, 8, 3, "u8", "i8", 2, small_weight=True)
    assert (np.abs(case.arrays["W"].astype(int)) > 64).any()
    f = of_bytes(case)
    np.testing.assert_array_equal(evaluate(f.workload, transformed(f, case.arrays))["C"], case.wanted)


def test_it_is_for_machines_that_multiply_in_pairs():
    case = convolution(8, 16, 24, 3, "u8", "i8")
    assert [f.name for f in formulations(case.workload)] == [DIRECT]
    options = formulations(case.workload, pairs=True)
    assert likely(case.workload, options) is options[1] is formulation_named(case.workload, NAME)
    assert options[1].slack == 1.0  # of an exact answer
    for name, wanted in (("x86-64-v3", True), ("x86-64-v2", True), ("znver4", False), ("neoverse-n1", False)):
        target = ts.Target.named(name)
        assert target.multiplies_pairs is wanted
        assert ("C_gemm" in ts.compile(case.workload, target=target).program) is wanted


def test_sums_that_i32_could_not_hold_four_times_are_left_alone():
    assert formulations(convolution(8, 1820, 1, 3, "u8", "i8").workload, pairs=True)[1:]
    assert not formulations(convolution(8, 1821, 1, 3, "u8", "i8").workload, pairs=True)[1:]


def test_a_network_for_such_a_machine_uses_it_and_is_exact():
    rng = np.random.default_rng(6)
    given = layer(rng, (3, 3, 16, 24), "u8", "i8", True, False)
    model = network(given, (1, 8, 8, 16), "conv", stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1))
    there = model.with_pairs(True)
    (task,) = [t for t in there.tasks() if t.tunable]
    assert [f.name for f in task.formulations] == [DIRECT, NAME]
    assert all(len(t.formulations) < 2 for t in model.tasks())
    x = drawn(rng, (1, 8, 8, 16))
    (wanted,) = model.evaluate({"x": x}).values()
    direct = ts.compile(model, formulations="direct")
    np.testing.assert_array_equal(direct(x), wanted)
    assert "gemm" in ts.compile(model, target="x86-64-v3").program
    assert "gemm" not in ts.compile(model, target="x86-64-v3", formulations="direct").program


def test_weights_in_pairs_count_as_stored():
    """Bytes that are multiplied in pairs are stored as i16: what a transformed weight takes more is counted from there."""
    for small, stored in ((False, 2), (True, 1)):
        case = convolution(8, 16, 24, 3, "u8", "i8", small_weight=small)
        assert of_bytes(case).growth == 16 * 24 * (16 * 2 - 9 * stored)


def test_a_weight_of_bytes_is_transformed_for_tiles_of_two():
    weight = np.full((3, 3, 1, 1), -128, np.int8)
    got = transform_weight(weight, 2)
    assert got.dtype == dtype("i16").numpy and got.min() == -9 * 128
    with pytest.raises(UserError, match="tiles of 2, not of 4"):
        transform_weight(weight, 4)
