"""Products of bytes in groups: which sums they are, how their operands are packed, and which sketches are refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.cpu.bytes import matmul, words

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.lang.define import workload
from tensorsmith.ops import conv, quantised
from tensorsmith.program.grouping import factors, group_axis, group_steps, lane_bytes
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.program.packing import pack
from tensorsmith.records.names import renamed
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch


def grouped(depth: int, loops: str = "i.0 j.0 | k.0 k.1 i.1 j.1", group: str = "k.1") -> Candidate:
    given = matmul(6, depth, 16, "u8", "i8").workload
    sketch = Sketch(given, (Nest("C", loops, vector="j.1", packed=("B",), group=group),)).check()
    return Candidate(sketch, {h: {"C.k.1": 4, "C.j.1": 8, "C.i.1": 3}.get(h, 1) for h in sketch.holes})


def test_sums_of_products_of_bytes_are_recognised():
    for a in ("i8", "u8"):
        for b in ("i8", "u8"):
            stage = matmul(3, 8, 5, a, b).workload.stage("C")
            assert [e.dtype for e in factors(stage)] == [a, b]
            assert group_axis(stage).name == "k"


def test_sums_of_products_of_i16_are_recognised():
    stage = words(3, 8, 5).stage("C")
    assert [e.dtype for e in factors(stage)] == ["i16", "i16"] and group_axis(stage).name == "k" and group_steps(stage) == 2
    assert group_steps(matmul(3, 8, 5, "u8", "i8").workload.stage("C")) == 4
    mixed = sum_of(lambda a, b: ts.cast("i32", a) * ts.cast("i32", ts.cast("i16", b)))
    assert factors(mixed) is None  # a lane would have as many of one as of the other


def test_sums_of_products_of_bf16_are_recognised():
    """In f32, which a sum of bf16 is; not where one factor is an f32, or an f16."""
    for kinds, found in ((("bf16", "bf16"), True), (("bf16", "f32"), False), (("f16", "f16"), False), (("bf16", "f16"), False)):
        stage = sum_of(lambda a, b: ts.cast("f32", a) * ts.cast("f32", b), *kinds)
        assert (factors(stage) is not None) == found
    assert group_steps(sum_of(lambda a, b: ts.cast("f32", a) * ts.cast("f32", b), "bf16", "bf16")) == 2


def sum_of(factor, x_kind="u8", y_kind="u8"):
    x, y = ts.placeholder((4, 8), x_kind, name="x"), ts.placeholder((8, 4), y_kind, name="y")
    k = ts.reduce_axis(8, "k")
    return workload([x, y, ts.compute((4, 4), lambda i, j: ts.sum(factor(x[i, k], y[k, j]), axis=k), name="C")]).stage("C")


@pytest.mark.parametrize(
    "factor",
    [
        lambda a, b: a * b,  # in bytes
        lambda a, b: ts.cast("i64", a) * ts.cast("i64", b),
        lambda a, b: ts.cast("i32", a) + ts.cast("i32", b),
        lambda a, b: ts.cast("i32", a) * ts.cast("i32", b) * 3,
        lambda a, b: ts.cast("f32", a) * ts.cast("f32", b),
    ],
)
def test_other_sums_are_not(factor):
    assert factors(sum_of(factor)) is None and group_axis(sum_of(factor)) is None


def test_channels_of_a_depthwise_convolution_are_no_group():
    x, w = ts.placeholder((1, 6, 6, 8), "u8", name="x"), ts.placeholder((3, 3, 8), "i8", name="w")
    stage = workload([x, w, conv.depthwise_conv(x, w, 1, 0, 1, "C", 0, "i32")]).stage("C")
    assert factors(stage) is not None and group_axis(stage) is None


def test_the_bytes_of_a_lane_are_packed_side_by_side():
    program = lower(grouped(8))
    layout = program.buffers["B"].packed
    assert [v.name for v in layout.loops] == ["C.j.0", "C.k.0", "C.j.1", "C.k.1"]
    b = np.arange(8 * 16, dtype=np.int8).reshape(8, 16)
    np.testing.assert_array_equal(pack(layout, b)[1, 1, 2], b[4:8, 10])
    assert "reduce C.k.0 < 2, group C.k.1 < 4" in str(program)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_a_group_has_four_steps_however_few_there_are(depth):
    layout = lower(grouped(depth)).buffers["B"].packed
    assert layout.shape[-1] == 4
    packed = pack(layout, np.ones((depth, 16), np.int8))
    assert packed.sum() == depth * 16  # and zeros behind


@pytest.mark.parametrize(
    "loops, group, wrong",
    [
        ("i.0 j.0 | k.0 k.1 i.1 j.1", "k.0", "last of several parts"),
        ("i.0 j.0 | k.0 i.1 j.1", "k.0", "last of several parts"),
        ("i.0 j.0 k.0 k.1 | i.1 j.1", "k.1", "last reduction loop"),
        ("i.0 j.0 | k.0 k.1 i.1 j.1", "i.1", "last of several parts"),
    ],
)
def test_a_group_elsewhere_is_refused(loops, group, wrong):
    with pytest.raises(UserError, match=wrong):
        grouped(8, loops, group)


def test_a_group_of_floats_is_refused():
    a, b = ts.placeholder((4, 8), name="A"), ts.placeholder((8, 4), name="B")
    k = ts.reduce_axis(8, "k")
    given = workload([a, b, ts.compute((4, 4), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
    with pytest.raises(UserError, match="sums up no products of small numbers"):
        Sketch(given, (Nest("C", "i.0 j.0 | k.0 k.1 i.1 j.1", vector="j.1", group="k.1"),)).check()


def test_a_group_may_have_two_lanes_worth_of_steps():
    """For instructions that multiply two rows by two columns."""
    candidate = grouped(20, "i.0 j.0 | k.0 k.1=8 i.1 j.1")
    program = lower(candidate)
    assert "reduce C.k.0 < 3, group C.k.1 < 8" in str(program) and program.buffers["B"].packed.shape[-2:] == (8, 8)
    case = matmul(6, 20, 16, "u8", "i8")
    np.testing.assert_array_equal(interpret(program, case.arrays)["C"], case.wanted)
    again = Candidate.from_json(candidate.sketch.workload, candidate.to_json())
    assert again.sketch == candidate.sketch and "k.1=8" in str(again)


@pytest.mark.parametrize("size", [2, 6, 16])
def test_a_group_of_other_sizes_is_refused(size):
    with pytest.raises(UserError, match=f"has {size} steps; 4 are possible, or 8"):
        grouped(32, f"i.0 j.0 | k.0 k.1={size} i.1 j.1")


def test_sketches_with_a_group_are_stored_and_found():
    candidate = grouped(8)
    again = Candidate.from_json(candidate.sketch.workload, candidate.to_json())
    assert again.sketch == candidate.sketch and str(again) == str(candidate)
    assert "group k.1" in str(candidate)


def test_bytes_behind_a_sum_are_computed_in_its_lanes():
    case = matmul(4, 8, 32, "u8", "i8", bytes_out=True).workload
    assert lane_bytes(case, case.stage("D")) == 4 and lane_bytes(case, case.stage("C")) == 4
    x = ts.placeholder((4, 8), "f32", name="x")
    alone = workload([x, quantised.quantize(x, ts.compute((), lambda: 0.5, name="s"), dtype="u8", name="q")])
    assert lane_bytes(alone, alone.stage("q")) == 1


def test_sketches_with_a_group_are_told_in_other_names():
    a, b = ts.placeholder((6, 8), "u8", name="left"), ts.placeholder((8, 16), "i8", name="right", constant=True)
    depth = ts.reduce_axis(8, "depth")
    there = workload(
        [
            a,
            b,
            ts.compute(
                (6, 16), lambda y, x: ts.sum(ts.cast("i32", a[y, depth]) * ts.cast("i32", b[depth, x]), axis=depth), name="S"
            ),
        ]
    )
    (nest,) = renamed(grouped(8), there).sketch.nests
    assert (
        str(nest.group) == "depth.1" and str(nest) == "S: y.0 x.0 | depth.0 depth.1 y.1 x.1 vector x.1 packed right group depth.1"
    )
