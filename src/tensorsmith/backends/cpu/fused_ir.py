"""Multiply-adds that round once, for machines without an instruction for them (x86 before FMA, WebAssembly).

There LLVM calls libm's `fma` for every lane. Sums of products need no such care: see `codegen/arith.py`. Our own functions do
(`codegen/vecmath.py`), nearly all of them in f32. The product of two f32 is exact in f64, and so is nearly always its sum with
a third when it is rounded to f32 afterwards: a module brings functions that go that way.
"""

from __future__ import annotations

import re

from tensorsmith.backends.cpu.target import CpuTarget

_CALLED = re.compile(r"@llvm\.fma\.(?:v(\d+))?f32\b")


def fused_ir(ir_text: str, target: CpuTarget) -> str:
    """The module as it is where the machine fuses; else with its multiply-adds of f32 by functions that it defines itself."""
    if target.fuses:
        return ir_text
    widths = sorted({int(lanes or 0) for lanes in _CALLED.findall(ir_text)})
    if not widths:
        return ir_text
    kept = re.sub(r"^declare .*@llvm\.fma\.(?:v\d+)?f32\(.*\n", "", ir_text, flags=re.M)
    return _CALLED.sub(lambda m: f"@{_name(int(m[1] or 0))}", kept) + "".join(map(_definition, widths))


def _name(lanes: int) -> str:
    return f"ts.fused.v{lanes}f32"


def _definition(lanes: int) -> str:
    short, long = (f"<{lanes} x {kind}>" if lanes else kind for kind in ("float", "double"))
    wide = "\n".join(f"  %{x}.wide = fpext {short} %{x} to {long}" for x in "abc")
    return f"""
define internal {short} @{_name(lanes)}({short} %a, {short} %b, {short} %c) alwaysinline nounwind {{
{wide}
  %product = fmul {long} %a.wide, %b.wide
  %sum = fadd {long} %product, %c.wide
  %result = fptrunc {long} %sum to {short}
  ret {short} %result
}}
"""
