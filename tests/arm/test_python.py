"""The package itself on AArch64: inside a Python that an emulator runs. `make test-arm` sets it up."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.arm import python
from tests.arm.emulator import AARCH64

import tensorsmith as ts
from tensorsmith.graph.builder import Builder
from tensorsmith.records import Store

pytestmark = [pytest.mark.arm, AARCH64.needed]

_WHO = """
import json
import tensorsmith as ts
from tensorsmith.targets.emulator import emulator
here = ts.Target.native()
print(json.dumps({"triple": here.triple, "features": here.features, "bytes": here.vector_bytes, "emulated": emulator()}))
"""

_TUNE = """
import sys
import numpy as np
import tensorsmith as ts
A, B = ts.placeholder((24, 32), name="A"), ts.placeholder((32, 48), name="B")
k = ts.reduce_axis(32, name="k")
C = ts.compute((24, 48), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
trials = []
try:
    ts.tune([A, B, C], trials=4, database="never.db")
except ts.UserError as problem:
    print("refused:", problem)
kernel = ts.tune([A, B, C], trials=4, on_progress=lambda p: trials.append(p.trials))
a, b = np.random.default_rng(0).random((24, 32), "f4"), np.random.default_rng(1).random((32, 48), "f4")
np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
kernel.save(sys.argv[1])
np.testing.assert_array_equal(ts.load_executable(sys.argv[1])(a, b), kernel(a, b))
print("trials:", trials[-1])
"""


def test_what_machine_it_is() -> None:
    """By what the kernel says, which an emulator says too: LLVM's own guess would be a machine without features."""
    done = python.run(["-c", _WHO])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["triple"].startswith("aarch64") and found["emulated"]
    assert {"+neon", "+fullfp16", "+dotprod", "+sve"} <= set(found["features"].split(",")) and found["bytes"] == 64


@pytest.mark.parametrize("file", ["call", "executable", "network", "network_file", "pickle", "pool", "variants"])
def test_the_runtime(file: str) -> None:
    done = python.run(["-m", "pytest", "-p", "no:cacheprovider", f"tests/runtime/test_{file}.py"])
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_search_of_four_trials(tmp_path: Path) -> None:
    done = python.run(["-c", _TUNE, str(tmp_path / "kernel.tsm")])
    assert done.returncode == 0, done.stderr[-4000:]
    assert "refused: times under an emulator mean nothing" in done.stdout and "trials: 4" in done.stdout


def four_layers() -> ts.Model:
    """Each a task of its own."""
    b, rng = Builder("layers"), np.random.default_rng(0)
    h = b.input("x", (4, 16), "f32")
    for before, after in pairwise((16, 24, 32, 40, 48)):
        h = b.add("relu", [b.add("matmul", [h, b.constant(rng.uniform(-1, 1, (before, after)).astype(np.float32))])])
    b.output("y", h)
    return ts.Model.from_graph(b.graph())


def test_a_tuner_here_measures_there(tmp_path: Path) -> None:
    """Four tasks, searched for by this machine and measured by a node that a command starts under the emulator."""
    seen: list[Any] = []
    command = shlex.join(["env", f"PYTHONPATH={python.REPOSITORY / 'src'}", str(python.python())])
    with pytest.warns(RuntimeWarning, match="all times of this run are emulated"):
        exe = ts.tune(
            four_layers(),
            trials=12,
            policy="random",
            target=ts.Target.named("cortex-a53", cores=2),
            runner=command,
            database=tmp_path / "tune.db",
            on_progress=seen.append,
        )
    assert seen[-1].trials == 12 and seen[-1].emulated and len(exe.network.kernels) == 4
    with Store.open(tmp_path / "tune.db", read_only=True) as store:
        assert not [r for s in store.workloads() for r in store.history(s.workload, s.target, s.timing)]
