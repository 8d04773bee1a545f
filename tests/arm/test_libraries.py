"""C libraries for AArch64, thread pool included, run by an emulator."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.arm.emulator import AARCH64, SVE, Machine
from tests.backends.cpu.export.test_export import expected, network, outputs, product, run
from tests.graph.networks import NETWORKS

import tensorsmith as ts
from tensorsmith.graph.model import Model
from tensorsmith.runtime.executable import Executable

pytestmark = [pytest.mark.arm, AARCH64.needed]


def check_library(make: Callable[..., Executable], target: str, machine: Machine, folder: Path) -> None:
    """Equal to what this machine gives, within rounding: another one sums in another order."""
    exe = make(target=target)
    exe.export(folder, name="net", compiler=machine.compiler)
    run([machine.compiler, *machine.flags, "main.c", "libnet.a", "-o", "main", *machine.libraries], folder)
    got = outputs(exe, folder, prefix=machine.emulator)
    for a, b in zip(got, expected(make()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def of_graph(name: str) -> Callable[..., Executable]:
    return lambda target=None: ts.compile(Model(NETWORKS[name]()), target=target)


@pytest.mark.parametrize("target", ["cortex-a53", "neoverse-n1"])
@pytest.mark.parametrize("make", [product, network])
def test_libraries_give_what_this_machine_gives(make: Callable[..., Executable], target: str, tmp_path: Path) -> None:
    check_library(make, target, AARCH64, tmp_path)


@pytest.mark.parametrize("target", ["cortex-a53", "cortex-a72", "neoverse-v1"])
@pytest.mark.parametrize("name", NETWORKS)
def test_small_networks(name: str, target: str, tmp_path: Path) -> None:
    check_library(of_graph(name), target, SVE[256], tmp_path)


@pytest.mark.parametrize(("target", "cpu"), [("neoverse-n1", "cortex-a53"), ("neoverse-v1", "max,sve512=on")])
def test_a_processor_that_lacks_something_is_refused(target: str, cpu: str, tmp_path: Path) -> None:
    """By its own library: dot products on an A53; and vectors of another length."""
    exe = product(target=target)
    exe.export(tmp_path, name="net", compiler=AARCH64.compiler)
    run([AARCH64.compiler, "-static", "main.c", "libnet.a", "-o", "main", "-lm", "-lpthread"], tmp_path)
    (tmp_path / "in0").write_bytes(bytes(exe.inputs[0].bytes))
    command = ["qemu-aarch64-static", "-cpu", cpu, "./main", "1", "0", "in0", "out0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and f"net was compiled for {target}, and this processor lacks instructions of it" in done.stderr
