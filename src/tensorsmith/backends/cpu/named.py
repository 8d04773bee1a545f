"""CPUs by name: facts from their makers' manuals, for generating code on another machine.

The number of cores is that of a common model; give another by `Target.named("znver4", cores=16)`. Where no cache lies behind a
second one that cores share, `l3_bytes` is that cache and `l2_bytes` a core's part of it. Where a system may differ (the last
cache of a server is built in many sizes), the comment says whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorsmith.backends.cpu.target import CpuTarget

_LINUX_X86 = "x86_64-unknown-linux-gnu"
_LINUX_ARM = "aarch64-unknown-linux-gnu"
_LINUX_RISCV = "riscv64-unknown-linux-gnu"
_WASM = "wasm32-unknown-wasi"
_SIMD = "+simd128,+nontrapping-fptoint,+bulk-memory,+sign-ext"

# The features of the levels: System V ABI, AMD64 architecture processor supplement, "micro-architecture levels".
_V2 = "+64bit,+cmov,+cx16,+cx8,+fxsr,+mmx,+popcnt,+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4 = f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"
# What these processors have beyond their level and LLVM may use for ordinary code: its X86.td, by processor.
_ZEN3 = "+adx,+aes,+clflushopt,+clwb,+clzero,+pclmul,+prfchw,+rdrnd,+rdseed,+sha,+sse4a,+vaes,+vpclmulqdq"
_ZEN4 = f"{_ZEN3},+avx512bf16,+avx512bitalg,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512vpopcntdq,+gfni"
_SKYLAKE = "+adx,+aes,+clflushopt,+clwb,+pclmul,+prfchw,+rdrnd,+rdseed"
_SAPPHIRE = (
    f"{_SKYLAKE},+avx512bf16,+avx512bitalg,+avx512fp16,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512vpopcntdq,"
    "+avxvnni,+gfni,+sha,+vaes,+vpclmulqdq"
)


def _x86(cpu: str, features: str, vector_bytes: int, registers: int, **facts: Any) -> CpuTarget:
    return CpuTarget(_LINUX_X86, cpu, features, vector_bytes, registers, **facts)


def _arm(cpu: str, features: str, triple: str = _LINUX_ARM, vector_bytes: int = 16, **facts: Any) -> CpuTarget:
    """With NEON: 32 registers of 16 bytes. Those of SVE may be wider, and take their place then: code is for just that width."""
    return CpuTarget(triple, cpu, f"+neon,+fp-armv8{features}", vector_bytes, 32, **facts)


NAMED: Mapping[str, CpuTarget] = {
    # No one processor: SSE4 on machines since 2009; caches of Intel's Nehalem (Optimization Reference Manual). No fused
    # multiply-add: a product takes 4 cycles, a sum 3.
    "x86-64-v2": _x86("x86-64-v2", _V2, 16, 16, l2_bytes=256 << 10, cores=4, fma_latency=7, fmas_per_cycle=1),
    # No one processor: AVX2 and FMA on machines since 2013; caches and latency of Intel's Haswell (the same manual).
    "x86-64-v3": _x86("x86-64-v3", _V3, 32, 16, l2_bytes=256 << 10, cores=4, fma_latency=5),
    # No one processor: AVX-512 on machines since 2017; caches of Intel's Skylake-SP (the same manual).
    "x86-64-v4": _x86("x86-64-v4", _V4, 64, 32, l2_bytes=1 << 20, cores=4),
    # AMD, Software Optimization Guide for the Family 19h Processors (56665): two FMA pipes of 256 bits, 32 MB for eight cores.
    "znver3": _x86("znver3", f"{_V3},{_ZEN3}", 32, 16, l2_bytes=512 << 10, l3_bytes=32 << 20, cores=8),
    # AMD, Software Optimization Guide for the Zen 4 Microarchitecture (57647): 512 bits go through 256-bit pipes in two cycles.
    "znver4": _x86("znver4", f"{_V4},{_ZEN4}", 64, 32, l2_bytes=1 << 20, l3_bytes=32 << 20, cores=8, fmas_per_cycle=1),
    # Intel, Optimization Reference Manual: two 512-bit FMA units (Xeon Gold 6000 and Platinum), 1.375 MB of last cache a core.
    "skylake-avx512": _x86("skylake-avx512", f"{_V4},{_SKYLAKE}", 64, 32, l2_bytes=1 << 20, l3_bytes=11 << 20, cores=8),
    # The same manual, "Golden Cove": 48 KB in 12 ways, 2 MB a core, 1.875 MB of last cache a core.
    "sapphirerapids": _x86(
        "sapphirerapids", f"{_V4},{_SAPPHIRE}", 64, 32,
        l1_bytes=48 << 10, l1_ways=12, l2_bytes=2 << 20, l3_bytes=15 << 20, cores=8,
    ),
    # Arm, Cortex-A53 Technical Reference Manual (4-way first cache); Raspberry Pi 3: 512 KB for four cores. Units are 64 bits wide,
    # so a vector takes two cycles; the latency is that of LLVM's AArch64SchedA53.td.
    "cortex-a53": _arm(
        "cortex-a53", "",
        l1_ways=4, l2_bytes=128 << 10, l3_bytes=512 << 10, cores=4, fma_latency=10, fmas_per_cycle=1, in_order=True,
    ),
    # Arm, Cortex-A55 Technical Reference Manual (100442: 16 to 64 KB in 4 ways; a second cache of 64 to 256 KB for each core, in 4
    # ways; a third for all in the DynamIQ unit) and Software Optimization Guide (latency 4). Sizes as in Google's Tensor: 32 KB and
    # 128 KB a core, 1 MB for its four. LLVM's model, AArch64SchedA55.td, starts two multiply-adds in a cycle; two vectors loaded by
    # one instruction take the load unit six cycles there, and two if they are loaded one by one: `slow-paired-128`.
    "cortex-a55": _arm(
        "cortex-a55", ",+fullfp16,+dotprod,+slow-paired-128",
        l1_ways=4, l2_bytes=128 << 10, l3_bytes=1 << 20, cores=4, fma_latency=4, fmas_per_cycle=2, in_order=True,
    ),
    # Arm, Cortex-A72 Software Optimization Guide (UAN 0016): latency 7, two pipes; Raspberry Pi 4: 1 MB for four cores.
    "cortex-a72": _arm("cortex-a72", "", l1_ways=2, l2_bytes=256 << 10, l3_bytes=1 << 20, cores=4, fma_latency=7),
    # Arm, Cortex-A76 Software Optimization Guide: latency 4, two pipes; Raspberry Pi 5: 512 KB a core, 2 MB for all.
    "cortex-a76": _arm(
        "cortex-a76", ",+fullfp16,+dotprod", l1_bytes=64 << 10, l1_ways=4, l2_bytes=512 << 10, l3_bytes=2 << 20, cores=4
    ),
    # Arm, Neoverse N1 Software Optimization Guide: latency 4, two pipes; last cache of AWS's Graviton2.
    "neoverse-n1": _arm(
        "neoverse-n1", ",+fullfp16,+dotprod", l1_bytes=64 << 10, l1_ways=4, l2_bytes=1 << 20, l3_bytes=32 << 20, cores=64
    ),
    # Arm, Neoverse V1 Software Optimization Guide: SVE of 256 bits, latency 4, two pipes (of NEON's 128 bits there are four); last
    # cache of AWS's Graviton3. For NEON: `named("neoverse-v1", vector_bytes=16, fmas_per_cycle=4)`.
    "neoverse-v1": _arm(
        "neoverse-v1", ",+fullfp16,+dotprod,+i8mm,+bf16,+sve", vector_bytes=32,
        l1_bytes=64 << 10, l1_ways=4, l2_bytes=1 << 20, l3_bytes=32 << 20, cores=64,
    ),
    # Arm, Neoverse V2 Software Optimization Guide: four pipes of 128 bits, for SVE too, so NEON will do; caches of AWS's Graviton4.
    "neoverse-v2": _arm(
        "neoverse-v2", ",+fullfp16,+dotprod,+i8mm,+bf16,+sve,+sve2",
        l1_bytes=64 << 10, l1_ways=4, l2_bytes=2 << 20, l3_bytes=36 << 20, cores=96, fmas_per_cycle=4,
    ),
    # Fujitsu, A64FX Microarchitecture Manual: SVE of 512 bits, latency 9, two pipes; 64 KB in 4 ways, lines of 256 bytes, 8 MB for
    # twelve cores, which have no second cache of their own.
    "a64fx": _arm(
        "a64fx", ",+fullfp16,+sve", vector_bytes=64,
        l1_bytes=64 << 10, l1_ways=4, l2_bytes=680 << 10, l3_bytes=8 << 20, line_bytes=256, cores=12, fma_latency=9,
    ),
    # Apple, Apple Silicon CPU Optimization Guide: performance cores, 128 KB each, 12 MB for four; four pipes of 128 bits.
    "apple-m1": _arm(
        "apple-m1", ",+fullfp16,+dotprod", "arm64-apple-macosx",
        l1_bytes=128 << 10, l2_bytes=3 << 20, l3_bytes=12 << 20, line_bytes=128, cores=4, fmas_per_cycle=4, page_bytes=16 << 10,
    ),
    # RISC-V International, "V" Vector Extension, version 1.0: 32 registers of 128 bits at least, and so much is used. No one
    # processor: caches and rates are guesses.
    "rv64gcv": CpuTarget(
        _LINUX_RISCV, "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b", 16, 32, l2_bytes=256 << 10, l3_bytes=2 << 20, cores=4
    ),
    # WebAssembly with vectors, as engines have since 2021, and with relaxed ones, since 2023 (webassembly.org/features): these
    # multiply and add at once. No machine: caches are guesses, and 16 vectors are what engines have registers for on x86.
    "wasm32": CpuTarget(_WASM, "generic", _SIMD, 16, 16, l2_bytes=256 << 10, fma_latency=8, fmas_per_cycle=1),
    "wasm32-relaxed": CpuTarget(_WASM, "generic", f"{_SIMD},+relaxed-simd", 16, 16, l2_bytes=256 << 10),
}  # fmt: skip
