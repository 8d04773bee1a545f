"""`tensorsmith doctor`: what machine this is, what is installed, and whether generated code is right here."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import typer

from tensorsmith.cli import show
from tensorsmith.cli.options import AsJson
from tensorsmith.compile import compile
from tensorsmith.errors import missing_library
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue
from tensorsmith.runtime.device import measure_peak
from tensorsmith.runtime.pool import measure_region_overhead
from tensorsmith.targets import neighbours
from tensorsmith.targets.target import native

_PACKAGES = (
    "tensorsmith",
    "numpy",
    "llvmlite",
    "lightgbm",
    "rich",
    "typer",
    "onnx",
    "torch",
    "onnxruntime",
    "openvino",
)
_SELF_TEST = ("C2D-small", "GMM-small", "ConvLayer-small", "softmax-small", "T2D-small", "matmul-i32-small")


@dataclass(frozen=True)
class SelfTest:
    """A workload that was compiled and run. `problem` says how its result is wrong; None: it is right."""

    workload: str
    problem: str | None


@dataclass(frozen=True)
class Health:
    """What machine this is, and how it does."""

    target: Mapping[str, str]  # its facts in words
    target_key: str
    python: str
    packages: Mapping[str, str | None]  # versions; None: not installed
    peak_flops: float  # f32 operations per second of all cores
    peak_flops_one_core: float
    memory_bytes_per_second: float
    region_seconds: float  # to start and join a parallel region
    self_tests: tuple[SelfTest, ...]
    missing: tuple[str, ...]  # what packages need of the system, and is not there
    busy: tuple[str, ...]  # who else used the cores meanwhile: the figures are less sure then
    ok: bool


def doctor(json: AsJson = False) -> None:
    """Shows the detected target and versions, and runs a self-test; exits with 1 if a result is wrong."""
    with show.apart(json):
        health = _examine()
    show.answer(health, json, _show)
    if not health.ok:
        raise typer.Exit(1)


def _examine() -> Health:
    before = neighbours.read()
    target, peak = native(), measure_peak()
    busy = neighbours.complaints(before, neighbours.read(), target.cores)
    tests = tuple(SelfTest(name, _problem(name)) for name in _SELF_TEST)
    return Health(
        target=target.describe(),
        target_key=target.key,
        python=platform.python_version(),
        packages={package: _version(package) for package in _PACKAGES},
        peak_flops=peak["flops"],
        peak_flops_one_core=peak["flops_one_core"],
        memory_bytes_per_second=peak["bytes"],
        region_seconds=measure_region_overhead(),
        self_tests=tests,
        missing=_missing(),
        busy=tuple(busy),
        ok=all(t.problem is None for t in tests),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _missing() -> tuple[str, ...]:
    """What lightgbm needs of the system: it is loaded when a search begins, which is late to hear of it."""
    try:
        importlib.import_module("lightgbm")
    except ImportError:  # not installed: executables run without it
        return ()
    except OSError as problem:
        return (f"lightgbm needs {missing_library(problem) or problem}",)
    return ()


def _problem(name: str) -> str | None:
    """What is wrong with the result of a workload that is compiled and run here."""
    workload = catalogue.small()[name].workload()
    inputs = random_inputs(workload, 0)
    got = compile(workload)(**inputs)
    results = got if isinstance(got, tuple) else (got,)
    want = evaluate(workload, inputs, precise=True)
    problems = [difference(workload, n, np.asarray(g), want[n]) for n, g in zip(workload.outputs, results)]
    return next((p for p in problems if p), None)


def _show(health: Health) -> None:
    packages = ", ".join(f"{name} {found or '-'}" for name, found in health.packages.items())
    lines = [
        *health.target.items(),
        ("python", health.python),
        ("packages", packages),
        (
            "peak",
            f"{health.peak_flops / 1e9:.0f} GFLOP/s, one core {health.peak_flops_one_core / 1e9:.0f}; "
            f"memory {health.memory_bytes_per_second / 1e9:.0f} GB/s",
        ),
        ("parallel", f"{health.region_seconds * 1e6:.2f} microseconds to start and join a region"),
        *(("self-test", f"{t.workload}: {f'WRONG: {t.problem}' if t.problem else 'ok'}") for t in health.self_tests),
    ]
    lines += [("missing", text) for text in health.missing]
    if health.busy:
        lines.append(("busy", f"{'; '.join(health.busy)}: peak and times are less sure, look again in a quiet hour"))
    for name, text in lines:
        show.prose(f"{name:<10} {text}")
