"""Code for WebAssembly, and C libraries of it, run by node. `make test-wasm` installs what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.arm.checking import by_default, check, random_programs, twins
from tests.arm.emulator import WASM
from tests.arm.test_libraries import check_library, of_graph
from tests.backends.cpu.export.test_export import network, product

import tensorsmith as ts
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import Target

TARGET = "wasm32"
BATCH = 20  # kernels in one program

pytestmark = [pytest.mark.wasm, WASM.needed]


@pytest.mark.parametrize("first", range(800, 900, BATCH))
def test_random_programs(first: int, tmp_path: Path) -> None:
    assert check(random_programs(range(first, first + BATCH)), Target.named(TARGET), tmp_path, WASM) >= 0.7 * BATCH


@pytest.mark.parametrize("operator", catalogue.OPERATORS)
def test_the_catalogue(operator: str, tmp_path: Path) -> None:
    found = by_default(twins(operator), Target.named(TARGET))
    assert check(found, Target.named(TARGET), tmp_path, WASM) == len(found)


def test_its_loops_are_vectors() -> None:
    exe = ts.compile(catalogue.get("matmul-small").tensors(), target=TARGET)
    assert "f32x4.relaxed_madd" in exe.assembly


@pytest.mark.parametrize("make", [product, network, of_graph("transformer")], ids=["product", "network", "transformer"])
def test_libraries(make, tmp_path: Path) -> None:
    check_library(make, TARGET, WASM, tmp_path)


def test_weights_cannot_be_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(ts.UserError, match='maps no files into memory; give weights="embedded"'):
        product(target=TARGET).export(tmp_path, weights="file")
