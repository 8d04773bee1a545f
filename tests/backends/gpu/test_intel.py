"""SPIR-V on Intel's OpenCL for CPUs, which `make test-gpu` brings into `build/intel`: the same answers as everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.gpu.drawn import KINDS

ROOT = Path(__file__).parents[3]
LIBRARIES = ROOT / "build/intel/lib"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (LIBRARIES / "libintelocl.so").exists(), reason="Intel's OpenCL is not in build/intel"),
]


@pytest.mark.parametrize("name", [*KINDS, "gelu-small"])
def test_spirv_is_right(name: str, tmp_path: Path) -> None:
    (tmp_path / "intel.icd").write_text(f"{LIBRARIES / 'libintelocl.so'}\n")
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    given = {"PYTHONPATH": path, "OCL_ICD_VENDORS": str(tmp_path), "LD_LIBRARY_PATH": str(LIBRARIES)}
    command = [sys.executable, "-m", "tests.backends.gpu.intel", name, "2", "5"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **given}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(done.stdout.split("\n")) == {"right", ""}, done.stdout
