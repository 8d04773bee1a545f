"""C libraries for AArch64, thread pool included, run by an emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.arm.emulator import AARCH64
from tests.backends.cpu.export.test_export import expected, network, outputs, product, run

pytestmark = [
    pytest.mark.arm,
    pytest.mark.skipif(bool(AARCH64.missing), reason=f"needs {', '.join(AARCH64.missing)}: `make test-arm` installs it"),
]


@pytest.mark.parametrize("target", ["cortex-a53", "neoverse-n1", "neoverse-v1"])
@pytest.mark.parametrize("make", [product, network])
def test_libraries_give_what_this_machine_gives(make, target: str, tmp_path: Path) -> None:
    """Within rounding: another machine sums in another order."""
    exe = make(target=target)
    exe.export(tmp_path, name="net", compiler=AARCH64.compiler)
    run([AARCH64.compiler, "-static", "main.c", "libnet.a", "-o", "main", "-lm", "-lpthread"], tmp_path)
    got = outputs(exe, tmp_path, prefix=AARCH64.emulator)
    for a, b in zip(got, expected(make()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
