"""A saved executable runs where nothing but NumPy and ml_dtypes is installed; what needs more says so."""

from __future__ import annotations

import json
import pickle
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense

import tensorsmith as ts
from tensorsmith.backends.cpu import cpuid
from tensorsmith.errors import NotInstalled, needed_for

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="our linker knows x86-64 alone")

#: packages of a full installation, none of which can be imported
ALONE = """
import sys
for name in ("llvmlite", "lightgbm", "scipy", "onnx", "torch", "plotly"):
    sys.modules[name] = None

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("llvmlite", "lightgbm", "scipy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in ("llvmlite", "lightgbm") else found(name, package)
for name in ("llvmlite", "lightgbm", "scipy"):
    del sys.modules[name]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("serving")
    model = write_dense(made / "dense.onnx", ("batch", 8))
    exe = ts.compile(ts.load(model, shapes={"batch": 4}))
    exe.save(made / "dense.tsm")
    ts.compile(ts.load(model, shapes={"batch": [1, 4]})).save(made / "open.tsm")
    (made / "dense.pickle").write_bytes(pickle.dumps(exe))
    np.savez(made / "want.npz", x=exe.random_inputs()[0], **exe.run({"x": exe.random_inputs()[0]}))
    return made


def alone(folder: Path, code: str) -> str:
    done = subprocess.run([sys.executable, "-c", ALONE + code], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_load_call_pickle_profile_and_threads(folder: Path) -> None:
    said = alone(
        folder,
        """
import json, pickle
import numpy as np
import tensorsmith as ts
want = np.load("want.npz")
x = want["x"]
exe = ts.load_executable("dense.tsm")
others = [pickle.loads(open("dense.pickle", "rb").read()), pickle.loads(pickle.dumps(exe)), ts.load_executable("open.tsm")]
for one in [exe, *others, ts.load_executable("dense.tsm", threads=2)]:
    y, total = one(x)
    assert np.array_equal(y, want["y"]) and np.array_equal(total, want["sum"])
assert exe.profile(x, rounds=1).steps and exe.benchmark(x, min_seconds=0.0, rounds=1).best > 0
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
""",
    )
    loaded = set(json.loads(said))
    assert "numpy" in loaded and not loaded & {"llvmlite", "lightgbm", "scipy"}


def test_the_command(folder: Path) -> None:
    out = alone(folder, "from tensorsmith.cli import main\nsys.argv = ['tensorsmith', 'run', 'dense.tsm', '--json']\nmain()\n")
    assert [o["name"] for o in json.loads(out)["outputs"]] == ["y", "sum"]


@pytest.mark.parametrize(
    ("asked", "package", "what"),
    [
        ("ts.compile([A, B])", "llvmlite", "compiling"),
        ("ts.measure_peak()", "llvmlite", "measuring the peak"),
        ("ts.tune([A, B], trials=1)", "llvmlite", "compiling"),
    ],
)
def test_what_needs_more_says_so(asked: str, package: str, what: str, folder: Path) -> None:
    out = alone(
        folder,
        f"""
import tensorsmith as ts
A = ts.placeholder((4,), name="A")
B = ts.compute((4,), lambda i: A[i] + 1.0, name="B")
try:
    {asked}
except ts.UserError as problem:
    print(problem)
""",
    )
    assert out == f"{what} needs the package {package}, which is not installed: pip install {package}\n"


def test_other_packages_are_not_ours_to_explain() -> None:
    with pytest.raises(NotInstalled, match="tuning needs the package lightgbm"), needed_for("tuning"):
        raise ModuleNotFoundError("No module named 'lightgbm.basic'", name="lightgbm.basic")
    with pytest.raises(ModuleNotFoundError) as caught, needed_for("tuning"):
        raise ModuleNotFoundError("No module named 'other'", name="other")
    assert not isinstance(caught.value, NotInstalled)


def test_the_processor_is_told_as_llvm_tells_it() -> None:
    import llvmlite.binding as llvm

    theirs, ours = llvm.get_host_cpu_features(), cpuid.features()
    assert {name for name, on in ours.items() if on} == {name for name, on in theirs.items() if on and name in ours}
    assert {name for name, on in theirs.items() if on} >= {"sse2", "64bit"} <= {name for name, on in ours.items() if on}
    assert cpuid.level({"sse4.2": True, "avx2": True}) == "x86-64-v3" and cpuid.level({}) == "x86-64"


def test_registers_that_the_system_does_not_save() -> None:
    assert cpuid._usable("avx512f", 0xE7) and not cpuid._usable("avx512f", 0x7)
    assert cpuid._usable("fma", 0x7) and not cpuid._usable("fma", 0x3) and cpuid._usable("sse4.2", 0)
    assert not cpuid._usable("amx-tile", 0xE7)
