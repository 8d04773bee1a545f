"""f16 on machines that compute with it, by the assembler: nothing becomes an f32 on the way, and sums still do."""

from __future__ import annotations

import re

import pytest

import tensorsmith as ts


def elementwise() -> list[object]:
    a, b = (ts.placeholder((16, 64), "f16", name=name) for name in "AB")
    return [a, b, ts.compute((16, 64), lambda i, j: ts.maximum(a[i, j] * b[i, j] + a[i, j] / b[i, j], ts.sqrt(b[i, j])), name="C")]


def product() -> list[object]:
    a, b, k = ts.placeholder((16, 64), "f16", name="A"), ts.placeholder((64, 64), "f16", name="B"), ts.reduce_axis(64)
    return [a, b, ts.compute((16, 64), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")]


NATIVE = {
    "sapphirerapids": (r"\tv(add|mul|div|sqrt)ph\t", r"\tvcvtph2ps|\tvcvtps2ph", r"\tvfmadd\w+ps\t", r"\tvfmadd\w+ph\t"),
    "neoverse-n1": (r"\tf(add|mul|div|sqrt)\tv\d+\.[48]h", r"\tfcvt[ln]", r"\tfmla\tv\d+\.4s", r"\tfmla\tv\d+\.[48]h"),
}


@pytest.mark.parametrize("name", NATIVE)
def test_machines_with_f16_compute_in_f16(name):
    operations, conversions, _, _ = NATIVE[name]
    text = ts.compile(elementwise(), target=name).assembly
    assert {found[1] for found in re.finditer(operations, text)} == {"add", "mul", "div", "sqrt"}
    assert not re.search(conversions, text)


@pytest.mark.parametrize("name", ["znver4", "cortex-a72"])
def test_other_machines_convert(name):
    text = ts.compile(elementwise(), target=name).assembly
    assert re.search(r"\tvcvtph2ps|\tfcvtl", text) and not re.search(r"\tv(add|mul)ph\t|\tf(add|mul)\tv\d+\.[48]h", text)


@pytest.mark.parametrize("name", NATIVE)
def test_sums_are_those_of_f32(name):
    """What a definition says that adds up f16: many of them, added up in f16, would lose most of their digits."""
    _, _, sums, halves = NATIVE[name]
    text = ts.compile(product(), target=name).assembly
    assert re.search(sums, text) and not re.search(halves, text)
