"""The record of GPUs."""

from __future__ import annotations

from tensorsmith.backends.backend import Backend, later
from tensorsmith.backends.gpu.default import default_candidate
from tensorsmith.backends.gpu.device import DEVICE
from tensorsmith.backends.gpu.features.schema import SCHEMA
from tensorsmith.backends.gpu.generate import generate
from tensorsmith.backends.gpu.rules import ANSOR, DEFAULT
from tensorsmith.backends.gpu.tactics import GpuTactics
from tensorsmith.backends.gpu.target import GpuTarget

BACKEND = Backend(
    kind="gpu",
    target=GpuTarget,
    device=DEVICE,
    rule_sets={"default": DEFAULT, "ansor": ANSOR},
    default_candidate=default_candidate,
    tactics=GpuTactics,
    generate=generate,
    schema=SCHEMA,
    extract_rows=later("tensorsmith.backends.gpu.features.extract", "extract_rows"),
    estimated_seconds=later("tensorsmith.backends.gpu.prior", "estimated_seconds"),
    estimate=later("tensorsmith.backends.gpu.features.compiled", "estimated_candidate"),
    explain=later("tensorsmith.backends.gpu.explain", "explain"),
    expected_roof=lambda target: (target.flops, target.bytes_per_second),
)
