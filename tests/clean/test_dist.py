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


SERVING = """
import sys
import numpy as np
import tensorsmith as ts

x = np.arange(128, dtype=np.float32).reshape(8, 16)
assert np.array_equal(ts.load_executable("rows.tsm")(x), x.sum(axis=1))
assert not {"llvmlite", "lightgbm", "scipy"} & set(sys.modules)
"""


def test_what_serves_needs_no_compiler(tmp_path: Path) -> None:
    """With the packages of requirements-run.txt alone, an executable is loaded and called, in Python and by the command."""
    a, k = ts.placeholder((8, 16), name="A"), ts.reduce_axis(16, name="k")
    clean = Environment.make(tmp_path, "-r", str(ROOT / "requirements-run.txt"))
    clean.install("--no-deps", str(made("*.whl")))
    (tmp_path / "work").mkdir()
    ts.compile([a, ts.compute((8,), lambda i: ts.sum(a[i, k], axis=k), name="B")]).save(tmp_path / "work" / "rows.tsm")
    clean.run(str(clean.python), "-c", SERVING)
    assert "float32" in clean.run("tensorsmith", "run", "rows.tsm")


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
