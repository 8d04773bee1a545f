"""The errors of our vector math in ulps, computed by an emulated machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.arm.emulator import AARCH64, Job, run
from tests.arm.test_kernels import MACHINES
from tests.backends.cpu.codegen.test_vecmath import DTYPES, HAS_LONG_DOUBLE, LIMITS, REFERENCES, WIDE, samples, ulp_error

import tensorsmith as ts
from tensorsmith.backends.backend import backend_of
from tensorsmith.backends.cpu.codegen.vecmath import FUNCTIONS
from tensorsmith.build import build_kernel, kernel_alone
from tensorsmith.lang import define
from tensorsmith.lang.define import workload
from tensorsmith.targets.target import Target

pytestmark = [pytest.mark.arm, AARCH64.needed]

STEP = 150_001  # of the f32's bit patterns; of f64, and of pow's arguments, fewer are drawn anyway
MOST = 40_000  # arguments of a function


def arguments(op: str, dtype: str) -> list[np.ndarray]:
    """Some of what the tests on this machine take, from every part of it."""
    found = [np.concatenate(parts) for parts in zip(*samples(op, dtype, STEP))]
    picked = np.linspace(0, len(found[0]) - 1, min(MOST, len(found[0]))).astype(np.int64)
    return [x[picked].astype(DTYPES[dtype]) for x in found]


def job(op: str, dtype: str, given: list[np.ndarray], target: Target) -> Job:
    (size,) = given[0].shape
    tensors = [ts.placeholder((size,), name=name, dtype=dtype) for name, _ in zip("xy", given)]
    function = define.power if op == "pow" else getattr(define, op)
    w = workload([*tensors, ts.compute((size,), lambda i: function(*(t[i] for t in tensors)), name="z")])
    return Job(kernel_alone(w, build_kernel(backend_of(target).default_candidate(w, target), target)), given)


@pytest.mark.parametrize(
    "dtype", ["f32", pytest.param("f64", marks=pytest.mark.skipif(not HAS_LONG_DOUBLE, reason="no reference"))]
)
@pytest.mark.parametrize("name", ["cortex-a72", "neoverse-v1"])
def test_errors(name: str, dtype: str, tmp_path: Path) -> None:
    target = Target.named(name)
    given = {op: arguments(op, dtype) for op in FUNCTIONS}
    results = run([job(op, dtype, given[op], target) for op in FUNCTIONS], tmp_path, MACHINES.get(name, AARCH64))
    for op, (got,) in zip(FUNCTIONS, results, strict=True):
        with np.errstate(all="ignore"):
            exact = REFERENCES[op](*(x.astype(WIDE[dtype]) for x in given[op]))
            error = ulp_error(got, exact)
        at = int(error.argmax())
        assert error[at] <= LIMITS[op][dtype == "f64"], f"{op} {dtype}: {error[at]} ulp at {[float(x[at]) for x in given[op]]}"
