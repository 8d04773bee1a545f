"""Conversions of f16 for machines without instructions for them: x86 without F16C, RISC-V without Zfh.

There LLVM turns all that code does with f16 into f32 and back by calls of two functions of compilers' run-time libraries, which
most processes lack. So a module brings its own. (WebAssembly's code is linked by Clang, which has them.) They use integers but
where the result is an f16 below the normal numbers: there an addition rounds, to nearest even as everywhere.
"""

from __future__ import annotations

from tensorsmith.backends.cpu.target import CpuTarget


def half_ir(ir_text: str, target: CpuTarget) -> str:
    """What a module has to define besides; nothing where the machine converts by itself, or there is nothing to convert."""
    return _CONVERSIONS if _lacks_instructions(target) and "half" in ir_text else ""


def _lacks_instructions(target: CpuTarget) -> bool:
    if target.is_riscv:
        return not (target.has("zfh") or target.has("zfhmin"))
    return target.is_x86 and not target.has("f16c")


_CONVERSIONS = """
; no function calls these before LLVM writes machine code
@llvm.compiler.used = appending global [2 x ptr] [ptr @__extendhfsf2, ptr @__truncsfhf2], section "llvm.metadata"

define internal float @__extendhfsf2(half %x) nounwind {
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %size = and i32 %bits, 32767
  %small = icmp ult i32 %size, 1024        ; below the normal numbers: a multiple of 2^-24
  %multiple = uitofp i32 %size to float
  %value = fmul float %multiple, 0x3E70000000000000
  %exact = bitcast float %value to i32
  %shifted = shl i32 %size, 13
  %normal = add i32 %shifted, 939524096    ; the exponents differ by 112
  %special = or i32 %shifted, 2139095040   ; infinity and NaN: all bits of the exponent
  %is_special = icmp uge i32 %size, 31744
  %large = select i1 %is_special, i32 %special, i32 %normal
  %magnitude = select i1 %small, i32 %exact, i32 %large
  %high = shl i32 %bits, 16
  %sign = and i32 %high, -2147483648
  %result = or i32 %magnitude, %sign
  %y = bitcast i32 %result to float
  ret float %y
}

define internal half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %value = bitcast i32 %size to float
  %rounded = fadd float %value, 5.0e-01    ; the last bit of numbers from 0.5 on is 2^-24, as of f16 below the normal numbers
  %rounded_bits = bitcast float %rounded to i32
  %small = sub i32 %rounded_bits, 1056964608
  %last = lshr i32 %size, 13
  %odd = and i32 %last, 1
  %moved = sub i32 %size, 939520001        ; 112 off the exponent, and just below half of the last bit on top
  %up = add i32 %moved, %odd
  %normal = lshr i32 %up, 13
  %is_small = icmp ult i32 %size, 947912704
  %finite = select i1 %is_small, i32 %small, i32 %normal
  %is_nan = icmp ugt i32 %size, 2139095040
  %special = select i1 %is_nan, i32 32256, i32 31744
  %is_special = icmp uge i32 %size, 1199570944  ; from 2^16 on
  %magnitude = select i1 %is_special, i32 %special, i32 %finite
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %result = or i32 %magnitude, %sign
  %short = trunc i32 %result to i16
  %y = bitcast i16 %short to half
  ret half %y
}
"""
