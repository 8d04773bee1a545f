"""Targets with round numbers, so that expected features can be worked out by hand."""

from __future__ import annotations

from tensorsmith.backends.cpu.target import CpuTarget


def target(vector_bytes: int = 64, registers: int = 32, cores: int = 2) -> CpuTarget:
    """16 f32 lanes, L1 of 32 KiB in 8 ways (64 sets, 4 KiB a way), L2 of 1 MiB, L3 of 32 MiB."""
    return CpuTarget(
        "x86_64-unknown-linux-gnu", "test", "+fma", vector_bytes, registers, 32 << 10, 8, 1 << 20, 32 << 20, 64, cores
    )  # fmt: skip
