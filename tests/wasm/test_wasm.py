"""Code for WebAssembly, and C libraries of it, run by node. `make test-wasm` installs what it needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.arm.checking import by_default, check, random_programs, twins
from tests.arm.emulator import WASM, Job, run
from tests.arm.test_libraries import check_library, of_graph
from tests.arm.test_types import WORKLOADS
from tests.backends.cpu.export.test_export import network, product

import tensorsmith as ts
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import Target

TARGET, TARGETS = "wasm32", ("wasm32", "wasm32-relaxed")
BATCH = 20  # kernels in one program

pytestmark = [pytest.mark.wasm, WASM.needed]


@pytest.mark.parametrize("first", range(800, 900, BATCH))
def test_random_programs(first: int, tmp_path: Path) -> None:
    target = Target.named(TARGETS[first // BATCH % 2])
    assert check(random_programs(range(first, first + BATCH)), target, tmp_path, WASM) >= 0.7 * BATCH


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operator", catalogue.OPERATORS)
def test_the_catalogue(operator: str, target: str, tmp_path: Path) -> None:
    found = by_default(twins(operator), Target.named(target))
    assert check(found, Target.named(target), tmp_path, WASM) == len(found)


@pytest.mark.parametrize(
    ("target", "wanted", "other"), [(TARGETS[0], "f32x4.add", "relaxed"), (TARGETS[1], "relaxed_madd", "fmaf")]
)
def test_its_loops_are_vectors(target: str, wanted: str, other: str) -> None:
    text = ts.compile(catalogue.get("matmul-small").tensors(), target=target).assembly
    assert wanted in text and other not in text


def test_short_types(tmp_path: Path) -> None:
    """f16, which has to be converted there, and bytes. The first two have maxima of f16, and are refused as vectors."""
    found = by_default(WORKLOADS, Target.named(TARGET))
    assert check(found, Target.named(TARGET), tmp_path, WASM) == len(found) - 2


def test_maxima_of_f16_are_made_one_by_one(tmp_path: Path) -> None:
    """LLVM does not end with vectors of them."""
    a, j = ts.placeholder((16, 32), name="A", dtype="f16"), ts.reduce_axis(32, name="j")
    tensors = [a, ts.compute((16,), lambda i: ts.max(a[i, j], axis=j), name="B")]
    with pytest.warns(UserWarning, match="plain loops are used: .*LLVM does not end"):
        kernel = ts.compile(tensors, target=TARGET)
    x = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float16)
    ((got,),) = run([Job(kernel.network, [x])], tmp_path, WASM)
    np.testing.assert_array_equal(got, x.max(axis=1))


@pytest.mark.parametrize("make", [product, network, of_graph("transformer")], ids=["product", "network", "transformer"])
def test_libraries(make, tmp_path: Path) -> None:
    check_library(make, TARGET, WASM, tmp_path)


def test_weights_cannot_be_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(ts.UserError, match='maps no files into memory; give weights="embedded"'):
        product(target=TARGET).export(tmp_path, weights="file")
