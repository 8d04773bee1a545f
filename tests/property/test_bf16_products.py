"""Random programs on products of bf16 against NumPy: sizes, special values, schedules drawn from the space, machines."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.backends.cpu.test_bf16_dots import convolution, matmul
from tests.property.test_bytes import SIZES, drawn, made_for, matmul_of_floats

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.errors import Refusal
from tensorsmith.lang.compare import assert_close
from tensorsmith.lang.define import workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.targets.target import native

MACHINES = ["native", "znver4", "neoverse-v1", "neoverse-v2"]  # by meaning, but for the first


def random_workload(rng: np.random.Generator) -> Workload:
    if rng.random() < 0.6:
        rows, depth, columns = (int(n) for n in rng.choice(SIZES, 3))
        return matmul(rows, depth, columns, constant=bool(rng.random() < 0.5))
    size, channels, outputs = int(rng.choice((1, 3, 5, 8))), int(rng.choice((1, 2, 3, 7, 12))), int(rng.choice((1, 5, 16, 24)))
    return convolution(size, channels, outputs, int(rng.choice((1, 3))))


def arrays(given: Workload, values: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Small whole numbers, whose sums are exact in any order; real ones; or those with infinities, NaN and zeros among them."""
    found = {}
    for buffer in given.inputs:
        x = rng.integers(-8, 9, buffer.shape).astype(float) if values == "whole" else rng.standard_normal(buffer.shape)
        if values == "special" and buffer.name != "W":  # where padding is skipped, an infinite weight is never seen
            where = rng.random(buffer.shape) < 0.02
            x = np.where(where, rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38], buffer.shape), x)
        found[buffer.name] = x.astype(ml_dtypes.bfloat16)
    return found


def check(given: Workload, name: str, got: np.ndarray, inputs: dict[str, np.ndarray], values: str) -> None:
    with np.errstate(all="ignore"):
        want = evaluate(given, inputs)[name]
    if values == "real":
        assert_close(given, name, got, want)
    elif values == "whole":
        np.testing.assert_array_equal(got, want)
    else:  # what overflows on the way depends on the order; what is finite, and what was no number before it was added up, does not
        known = _never_overflows(given, inputs)
        np.testing.assert_array_equal(np.isnan(got) & known, np.isnan(want) & known)
        np.testing.assert_array_equal(np.isinf(got) & known, np.isinf(want) & known)


def _never_overflows(given: Workload, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Where sums of the sizes of all finite factors are far from the largest f32."""
    sizes = {
        n: np.where(np.isfinite(x.astype(float)), np.abs(x.astype(float)), 1.0).astype(ml_dtypes.bfloat16)
        for n, x in inputs.items()
    }
    with np.errstate(all="ignore"):
        return np.asarray(evaluate(given, sizes)[given.outputs[0]].astype(float) < 1e38)


def run(count: int, seed: int, patch) -> None:
    rng = np.random.default_rng(seed)
    grouped = refused = 0
    for n in range(count):
        machine = native() if n % 2 else ts.Target.named(MACHINES[1 + n // 2 % 3], cores=2)
        given, values = random_workload(rng), ("whole", "real", "special")[n % 3]
        inputs = arrays(given, values, rng)
        (name,) = given.outputs
        for candidate in [default_candidate(given, machine), *drawn(space_of(given, machine), 3, rng)[:3]]:
            grouped += any(nest.group for nest in candidate.sketch.nests)
            try:
                made = made_for(candidate, machine, patch)
            except Refusal:
                refused += 1
                continue
            if values == "whole":
                np.testing.assert_array_equal(interpret(lower(candidate), inputs)[name], evaluate(given, inputs)[name])
            check(given, name, made.run(inputs)[name], inputs, values)
    assert grouped > count / 2 and refused < count / 5


def test_random_programs_on_bf16_are_numpys(monkeypatch):
    run(24, 11, monkeypatch)


@pytest.mark.long
def test_many_random_programs_on_bf16_are_numpys(monkeypatch):
    run(1200, int(np.random.default_rng().integers(1 << 30)), monkeypatch)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "copied"])
def test_what_is_left_of_a_group_is_nothing(name, constant, monkeypatch):
    """An odd depth: the last step has one factor, and zero times whatever lies behind it, or would, must not count."""
    machine = native() if name == "native" else ts.Target.named(name, cores=2)
    given = matmul(70, 129, 160, constant=constant) if name == "native" else matmul(10, 33, 24, constant=constant)
    inputs = arrays(given, "whole", np.random.default_rng(3))
    inputs["A"][:, -1] = np.inf
    inputs["B"][-1] = np.inf
    made = made_for(default_candidate(given, machine), machine, monkeypatch)
    assert np.isposinf(made.run(inputs)["C"]).all()
    inputs["A"][:, -1], inputs["B"][-1] = 1, 2
    np.testing.assert_array_equal(made.run(inputs)["C"], evaluate(given, inputs)["C"])


def by_rows(rows: int, depth: int, columns: int) -> Workload:
    """A[i, k] * B[j, k]: the second factor lies the other way round, as the keys of an attention do."""
    a, b, k = (
        ts.placeholder((rows, depth), "bf16", name="A"),
        ts.placeholder((columns, depth), "bf16", name="B"),
        ts.reduce_axis(depth),
    )
    product = ts.compute((rows, columns), lambda i, j: ts.sum(ts.cast("f32", a[i, k]) * ts.cast("f32", b[j, k]), axis=k), name="C")
    return workload([a, b, product])


@pytest.mark.parametrize("name, square", [("znver4", "load <4 x i32>"), ("neoverse-v2", "load <2 x i64>")])
def test_rows_of_groups_are_copied_in_squares(name, square):
    machine = ts.Target.named(name, cores=2)
    candidate = default_candidate(by_rows(128, 64, 128), machine)
    assert "B.pack" in {nest.stage for nest in candidate.sketch.nests}
    assert square in generate(lower(candidate), machine).ir


@pytest.mark.parametrize("name", ["native", "znver4", "neoverse-v2"])
@pytest.mark.parametrize("size", [(72, 67, 45), (80, 40, 71)], ids=str)
def test_copies_in_squares_are_right(name, size, monkeypatch):
    """Columns and steps that fill no square, and a last group that is not whole; memory that nobody wrote is no number."""
    machine = native() if name == "native" else ts.Target.named(name, cores=2)
    given = by_rows(*size)
    inputs = arrays(given, "whole", np.random.default_rng(5))
    candidate = default_candidate(given, machine)
    assert "B.pack" in {nest.stage for nest in candidate.sketch.nests}
    prepared = made_for(candidate, machine, monkeypatch).prepare(inputs["A"], inputs["B"])
    prepared.poison()
    prepared.repeat(1)
    np.testing.assert_array_equal(prepared.outputs[0], evaluate(given, inputs)["C"])


def test_what_lies_behind_a_group_does_not_count(monkeypatch):
    """Groups that lie in memory as a lane takes them, and one step less: what is next to it is infinite, times nothing."""
    machine = ts.Target.named("neoverse-v2", cores=2)
    a, b, k = ts.placeholder((8, 3), "bf16", name="A"), ts.placeholder((24, 4), "bf16", name="B"), ts.reduce_axis(3, "k")
    product = ts.compute((8, 24), lambda i, j: ts.sum(ts.cast("f32", a[i, k]) * ts.cast("f32", b[j, k]), axis=k), name="C")
    given = workload([a, b, product])
    inputs = arrays(given, "whole", np.random.default_rng(3))
    inputs["B"][:, 3] = np.inf
    candidate = default_candidate(given, machine)
    assert [nest.group_size for nest in candidate.sketch.nests] == [4]
    got = made_for(candidate, machine, monkeypatch).run(inputs)["C"]
    np.testing.assert_array_equal(got, evaluate(given, inputs)["C"])


@pytest.mark.parametrize("name", MACHINES[1:])
def test_numbers_below_the_normal_ones_are_nothing_in_such_products(name, monkeypatch):
    """The one thing in which these instructions differ from f32. (docs/weights.md says so.)"""
    machine = ts.Target.named(name, cores=2)
    given = matmul(16, 32, 64)
    tiny = np.full((16, 32), 2.0**-130).astype(ml_dtypes.bfloat16)
    large = np.full((32, 64), 2.0**120).astype(ml_dtypes.bfloat16)
    assert (tiny.astype(float) > 0).all()
    got = made_for(default_candidate(given, machine), machine, monkeypatch).run({"A": tiny, "B": large})["C"]
    np.testing.assert_array_equal(got, 0.0)
    least = np.full((16, 32), 2.0**-126).astype(ml_dtypes.bfloat16)
    got = made_for(default_candidate(given, machine), machine, monkeypatch).run({"A": least, "B": large})["C"]
    np.testing.assert_array_equal(got, 32 * 2.0**-6)


def test_features_of_a_group_count_what_the_code_does():
    """A step of the tile multiplies two bf16 by one instruction, and loads a group at once."""
    machine = ts.Target.named("znver4", cores=2)
    grouped = extract(lower(default_candidate(matmul(64, 256, 64), machine)), machine)
    plain = extract(lower(default_candidate(matmul_of_floats(64, 256, 64), machine)), machine)
    assert grouped.raw("reduce_steps").max() * 2 == pytest.approx(plain.raw("reduce_steps").max(), rel=1e-3)
    assert grouped.raw("float_mad").max() * 2 == pytest.approx(plain.raw("float_mad").max(), rel=1e-3)
    assert grouped.raw("float_otherfunc").max() == 0 and grouped.raw("load_share_strided").max() == 0
