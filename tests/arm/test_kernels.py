"""Code for AArch64, run by an emulator, against the evaluator of definitions. `make test-arm` installs what it needs.

A few run wherever the cross compiler and the emulator are installed; the rest takes minutes, and is for `make test-arm`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.arm.checking import by_default, check, random_programs, twins
from tests.arm.emulator import AARCH64, SVE

from tensorsmith.ops import catalogue
from tensorsmith.targets.target import Target

#: how each is run: a machine with all that it has, and scalable vectors of its size
MACHINES = {
    "cortex-a53": AARCH64,
    "cortex-a55": AARCH64,
    "neoverse-n1": AARCH64,
    "neoverse-v1": SVE[256],
    "neoverse-v2": SVE[128],
    "a64fx": SVE[512],
}
BATCH = 20  # kernels in one program

pytestmark = AARCH64.needed


def test_some_random_programs(tmp_path: Path) -> None:
    assert check(random_programs(range(BATCH)), Target.named("cortex-a53"), tmp_path, AARCH64) >= 15


@pytest.mark.arm
@pytest.mark.parametrize("first", range(100, 600, BATCH))
def test_random_programs(first: int, tmp_path: Path) -> None:
    name = list(MACHINES)[first // BATCH % len(MACHINES)]
    assert check(random_programs(range(first, first + BATCH)), Target.named(name), tmp_path, MACHINES[name]) >= 0.7 * BATCH


@pytest.mark.arm
@pytest.mark.parametrize("operator", catalogue.OPERATORS)
@pytest.mark.parametrize("name", ["cortex-a53", "cortex-a55", "neoverse-n1", "neoverse-v1"])
def test_the_catalogue(name: str, operator: str, tmp_path: Path) -> None:
    """The default schedule of every case, or of its small twin, and of its other formulations."""
    found = by_default(twins(operator), Target.named(name))
    assert check(found, Target.named(name), tmp_path, MACHINES[name]) == len(found)


@pytest.mark.arm
@pytest.mark.parametrize("bits", SVE)
def test_scalable_vectors(bits: int, tmp_path: Path) -> None:
    """The small catalogue, and random definitions, for vectors of just that many bits."""
    target = Target.named("neoverse-v1", vector_bytes=bits // 8)
    found = by_default([case.workload() for case in catalogue.small().values()], target)
    found += by_default([w for w, _ in random_programs(range(600, 640))], target)
    assert check(found, target, tmp_path, SVE[bits]) == len(found)


@pytest.mark.arm
def test_scalable_vectors_of_another_length_give_other_results(tmp_path: Path) -> None:
    """So a machine's length has to be asked for before such code runs."""
    target = Target.named("neoverse-v1")
    with pytest.raises(AssertionError, match="neoverse-v1: "):
        check(by_default([catalogue.get("matmul-small").workload()], target), target, tmp_path, SVE[128])
