"""Multiply-adds for machines without an instruction for them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.backends.cpu.fused_ir import fused_ir
from tensorsmith.backends.cpu.named import NAMED
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import Target

TEXT = """declare float @llvm.fma.f32(float, float, float)
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
declare double @llvm.fma.f64(double, double, double)
define float @f(float %x) {
  %y = call float @llvm.fma.f32(float %x, float %x, float %x)
  ret float %y
}
"""


def test_who_fuses() -> None:
    assert {name for name, target in NAMED.items() if not target.fuses} == {"x86-64-v2", "wasm32", "wasm32-relaxed"}


def test_only_machines_that_do_not_fuse_get_other_text() -> None:
    assert fused_ir(TEXT, NAMED["znver4"]) is TEXT and fused_ir(TEXT, NAMED["cortex-a53"]) is TEXT
    text = fused_ir(TEXT, NAMED["x86-64-v2"])
    assert "@llvm.fma.f32" not in text and "@llvm.fma.v4f32" not in text and "@llvm.fma.f64" in text
    assert text.count("define internal") == 2 and "call float @ts.fused.v0f32(float %x" in text
    assert fused_ir("define void @g() {\n", NAMED["x86-64-v2"]) == "define void @g() {\n"


@pytest.mark.parametrize("name", ["matmul-small", "gelu-small", "softmax-small"])
def test_no_function_is_called_for_every_lane(name: str) -> None:
    """The products and our own functions, in f32: LLVM would call libm's `fmaf` for each."""
    text = ts.compile(catalogue.get(name).tensors(), target="x86-64-v2").assembly
    assert "fmaf" not in text and "mulp" in text


def test_functions_are_as_exact() -> None:
    """Reducing an argument of exp subtracts multiples of ln 2: products that are rounded to f32 would lose seven bits here."""
    x = ts.placeholder((64,), name="x")
    kernel = ts.compile([x, ts.compute((64,), lambda i: ts.exp(x[i]), name="y")], target=Target.named("x86-64-v2"))
    given = np.linspace(-80, 80, 64).astype(np.float32)
    exact = np.exp(given.astype(np.float64))
    assert np.max(np.abs(kernel(given) - exact) / exact) < 1.2e-7
