"""`tensorsmith doctor`: what machine this is, what is installed, and whether generated code is right here."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import typer

from tensorsmith.compile import compile
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue
from tensorsmith.runtime.device import measure_peak
from tensorsmith.runtime.pool import measure_region_overhead
from tensorsmith.targets.target import Target, native

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


def doctor() -> None:
    """Shows the detected target and versions, and runs a self-test; exits with 1 if a result is wrong."""
    target = native()
    for line in [*_target_lines(target), *_version_lines(), *_speed_lines()]:
        print(line)
    wrong = _self_test()
    if wrong:
        raise typer.Exit(1)


def _target_lines(target: Target) -> list[str]:
    return [f"{name:<10} {text}" for name, text in target.describe().items()]


def _version_lines() -> list[str]:
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} -")
    return [f"python     {platform.python_version()}", f"packages   {', '.join(found)}"]


def _speed_lines() -> list[str]:
    peak = measure_peak()
    return [
        f"peak       {peak['flops'] / 1e9:.0f} GFLOP/s, one core {peak['flops_one_core'] / 1e9:.0f}; "
        f"memory {peak['bytes'] / 1e9:.0f} GB/s",
        f"parallel   {measure_region_overhead() * 1e6:.2f} microseconds to start and join a region",
    ]


def _self_test() -> int:
    wrong = 0
    small = catalogue.small()
    for name in _SELF_TEST:
        workload = small[name].workload()
        inputs = random_inputs(workload, 0)
        got = compile(workload)(**inputs)
        results = got if isinstance(got, tuple) else (got,)
        want = evaluate(workload, inputs, precise=True)
        problems = [difference(workload, n, np.asarray(g), want[n]) for n, g in zip(workload.outputs, results)]
        bad = [p for p in problems if p]
        wrong += bool(bad)
        print(f"self-test  {name}: {'WRONG: ' + bad[0] if bad else 'ok'}")
    return wrong
