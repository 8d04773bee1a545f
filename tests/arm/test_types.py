"""f16, bf16 and int8 on AArch64, where some machines compute with f16 and others convert, and some have products of the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.arm.checking import by_default, check
from tests.arm.emulator import AARCH64
from tests.arm.test_kernels import MACHINES

import tensorsmith as ts
from tensorsmith.lang.define import workload
from tensorsmith.lang.workload import Workload
from tensorsmith.targets.target import Target

pytestmark = [pytest.mark.arm, AARCH64.needed]


def product(of: str, sums: str, rows: int, columns: int, depth: int) -> Workload:
    """A product of matrices of one type with sums of another, and its largest value of each row."""
    a, b = ts.placeholder((rows, depth), name="A", dtype=of), ts.placeholder((depth, columns), name="B", dtype=of, constant=True)
    k, j = ts.reduce_axis(depth, name="k"), ts.reduce_axis(columns, name="l")
    c = ts.compute((rows, columns), lambda i, j: ts.sum(ts.cast(sums, a[i, k]) * ts.cast(sums, b[k, j]), axis=k), name="C")
    return workload([a, b, c, ts.compute((rows,), lambda i: ts.max(c[i, j], axis=j), name="D")])


def elementwise() -> Workload:
    a = ts.placeholder((13, 37), name="A", dtype="f16")
    return workload([a, ts.compute((13, 37), lambda i, j: ts.tanh(a[i, j] * 2.0 + 0.5) / (a[i, j] * a[i, j] + 1.0), name="B")])


def requantised() -> Workload:
    """As quantised networks do: sums of bytes, scaled, rounded, clamped, stored as bytes."""
    a, b = ts.placeholder((9, 24), name="A", dtype="u8"), ts.placeholder((24, 33), name="B", dtype="i8", constant=True)
    k = ts.reduce_axis(24, name="k")
    c = ts.compute((9, 33), lambda i, j: ts.sum(ts.cast("i32", a[i, k]) * ts.cast("i32", b[k, j]), axis=k), name="C")
    scaled = ts.compute(
        (9, 33),
        lambda i, j: ts.cast("i8", ts.minimum(ts.maximum(ts.round(ts.cast("f32", c[i, j]) * 0.25), -128.0), 127.0)),
        name="D",
    )
    return workload([a, b, scaled])


SIZES = [(16, 32, 24), (7, 45, 33)]
WORKLOADS = [
    *(product("f16", "f16", *size) for size in SIZES),
    *(product("f16", "f32", *size) for size in SIZES),
    *(product("i8", "i32", *size) for size in SIZES),
    *(product("u8", "i32", *size) for size in SIZES),
    *(product("bf16", "f32", *size) for size in SIZES),
    *(product("bf16", "bf16", *size) for size in SIZES),
    elementwise(),
    requantised(),
]


@pytest.mark.parametrize("name", MACHINES)
def test_short_types(name: str, tmp_path: Path) -> None:
    found = by_default(WORKLOADS, Target.named(name))
    assert check(found, Target.named(name), tmp_path, MACHINES[name]) == len(found)


def test_f16_is_computed_with_where_the_machine_can() -> None:
    a = ts.placeholder((13, 64), name="A", dtype="f16")
    tensors = [a, ts.compute((13, 64), lambda i, j: a[i, j] * a[i, j] + a[i, j] * 0.5, name="B")]
    of = {name: ts.compile(tensors, target=name).assembly for name in ("cortex-a72", "neoverse-n1", "neoverse-v1")}
    for name in ("neoverse-n1", "neoverse-v1"):
        assert re.search(r"fmul\s+v\d+\.[48]h", of[name]) and "fcvtl" not in of[name]
    assert "fcvtl" in of["cortex-a72"] and not re.search(r"fmul\s+v\d+\.[48]h", of["cortex-a72"])


@pytest.mark.parametrize("name", ["cortex-a72", "neoverse-n1"])
def test_sums_of_f16_are_f32_everywhere(name: str) -> None:
    """And rounded once: many f16 added up would lose most of their digits."""
    text = ts.compile(WORKLOADS[0], target=name).assembly
    assert "fcvtl" in text and re.search(r"fmla\s+v\d+\.4s", text) and not re.search(r"fmla\s+v\d+\.[48]h", text)
