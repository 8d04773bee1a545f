"""What `make dist` has made works elsewhere: it is installed in a fresh environment, imported, and compiles an operator."""

from __future__ import annotations

import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from tests.clean.environment import ROOT, Environment, build

import tensorsmith as ts

pytestmark = pytest.mark.clean

OPERATOR = """
import numpy as np
import tensorsmith as ts

A, k = ts.placeholder((8, 16), name="A"), ts.reduce_axis(16, name="k")
B = ts.compute((8,), lambda i: ts.sum(A[i, k], axis=k), name="B")
a = np.arange(128, dtype=np.float32).reshape(8, 16)
assert np.array_equal(ts.compile([A, B])(a), a.sum(axis=1))
print(ts.__version__, ts.__file__)
"""


def made(pattern: str) -> Path:
    found = list((ROOT / "dist").glob(pattern))
    assert len(found) == 1, f"dist/ has {len(found)} files {pattern}; `make dist` makes one"
    return found[0]


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_works_in_a_clean_environment(tmp_path: Path) -> None:
    clean = Environment.make(tmp_path, str(made("*.whl")))
    said = clean.run(str(clean.python), "-c", OPERATOR).split()
    assert said[0] == ts.__version__ and Path(said[1]).is_relative_to(tmp_path / "venv")
    assert clean.run("tensorsmith", "--version") == f"tensorsmith {ts.__version__}\n"
    assert "self-test" in clean.run("tensorsmith", "doctor")


def test_the_sdist_gives_the_same_wheel(tmp_path: Path) -> None:
    """`python -m build` makes its wheel of the sdist; this one is made of the checkout."""
    (straight,) = build(tmp_path, "--wheel")
    assert contents(straight) == contents(made("*.whl"))


def test_what_is_in_them() -> None:
    files = contents(made("*.whl"))
    assert {"tensorsmith/py.typed", "tensorsmith/report/page/page.html", "tensorsmith_command.py"} <= set(files)
    (metadata,) = [message_from_bytes(data) for name, data in files.items() if name.endswith(".dist-info/METADATA")]
    assert metadata["Version"] == ts.__version__ and metadata["License-Expression"] == "Apache-2.0"
    assert {"LICENSE", "THIRD_PARTY.md"} == set(metadata.get_all("License-File"))
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier")
    with tarfile.open(made("*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "mkdocs.yml", "CHANGELOG.md", "docs/tutorial.md", "tests/test_smoke.py", "benchmarks/ops.py"} <= names
    assert not [n for n in names if n.endswith((".pyc", ".db"))]
