"""The measured peaks are plausible; how fast this machine is stays out of it."""

from __future__ import annotations

import dataclasses

import pytest

from tensorsmith.backends.cpu import peak
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.targets.target import native


def test_measure_peak():
    found = peak.measure_peak()
    assert set(found) == {"flops", "flops_one_core", "bytes"}
    assert all(1e8 < value < 1e16 for value in found.values())


def test_peak_kernel_runs_round_by_round():
    kernel = peak.peak_kernel()
    assert kernel is peak.peak_kernel()
    assert all(1e8 < kernel.run_once(threads) < 1e16 for threads in (1, 2, 1))


@pytest.mark.skipif(not native().has("fma"), reason="needs fused multiply-add")
def test_the_loop_is_all_fused_multiply_adds():
    target = native()
    chains = 24 if target.vector_registers >= 32 else 12
    text = compile_ir(peak._fma_ir(target.lanes(4), chains), target).source("asm")
    assert text.count("vfmadd") == chains
    register = "zmm" if target.vector_bytes == 64 else "ymm"
    assert register in text and "(%rsp)" not in text  # nothing spilled


def test_the_kernel_builds_for_wider_registers():
    target = dataclasses.replace(native(), vector_registers=32, vector_bytes=64)
    assert compile_ir(peak._fma_ir(target.lanes(4), 24), target).symbols == {"fma"}
