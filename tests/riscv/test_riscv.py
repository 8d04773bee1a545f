"""Code for RISC-V with vectors, and C libraries of it, run by an emulator. `make test-riscv` installs what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.arm.checking import by_default, check, random_programs, twins
from tests.arm.emulator import RISCV64
from tests.arm.test_libraries import check_library, of_graph
from tests.arm.test_types import WORKLOADS
from tests.backends.cpu.export.test_export import network, product

import tensorsmith as ts
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import Target

TARGET = "rv64gcv"
BATCH = 20  # kernels in one program

pytestmark = [pytest.mark.riscv, RISCV64.needed]


@pytest.mark.parametrize("first", range(700, 800, BATCH))
def test_random_programs(first: int, tmp_path: Path) -> None:
    assert check(random_programs(range(first, first + BATCH)), Target.named(TARGET), tmp_path, RISCV64) >= 0.7 * BATCH


@pytest.mark.parametrize("operator", catalogue.OPERATORS)
def test_the_catalogue(operator: str, tmp_path: Path) -> None:
    found = by_default(twins(operator), Target.named(TARGET))
    assert check(found, Target.named(TARGET), tmp_path, RISCV64) == len(found)


def test_longer_vectors_than_code_was_made_for(tmp_path: Path) -> None:
    """128 bits of them are used: code asks for as many elements as it wants."""
    found = by_default([case.workload() for case in catalogue.small().values()], Target.named(TARGET))
    longer = RISCV64.on("rv64,v=true,vlen=512,vext_spec=v1.0")
    assert check(found, Target.named(TARGET), tmp_path, longer) == len(found)


def test_its_loops_are_vectors() -> None:
    exe = ts.compile(catalogue.get("matmul-small").tensors(), target=TARGET)
    assert "vfmacc.v" in exe.assembly


def test_short_types(tmp_path: Path) -> None:
    """f16, which has to be converted there, and bytes. With the last one, which rounds sums to bytes, qemu 7.2 ends by an
    assertion of its own (`decode_save_opc`) before there is any result."""
    found = by_default(WORKLOADS[:-1], Target.named(TARGET))
    assert check(found, Target.named(TARGET), tmp_path, RISCV64) == len(found)


@pytest.mark.parametrize("make", [product, network, of_graph("transformer")], ids=["product", "network", "transformer"])
def test_libraries(make, tmp_path: Path) -> None:
    check_library(make, TARGET, RISCV64, tmp_path)
