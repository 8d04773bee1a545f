"""The machine of a report: facts of a target, its roof, and the versions of what made the page."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tensorsmith.backends import backend_of
from tensorsmith.errors import UserError
from tensorsmith.report.data import Roof
from tensorsmith.targets.target import Target

_PACKAGES = ("tensorsmith", "numpy", "llvmlite", "lightgbm", "onnx", "torch", "plotly")


def facts(target: Target) -> tuple[tuple[str, str], ...]:
    """Of a target, by name; sizes in units for people, of the features those that are there."""
    return tuple(_flat(target.to_json()))


def _flat(parts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in parts.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        elif name == "features":
            yield name, " ".join(f[1:] for f in str(value).split(",") if f.startswith("+"))
        elif name.endswith("_bytes") and isinstance(value, int):
            yield name.removesuffix("_bytes").replace("_", " "), size(value)
        else:
            yield name.replace("_", " "), str(value)


def size(count: float) -> str:
    """`512 KiB`"""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} GiB"


def roof(target: Target, peak: Mapping[str, float] | None) -> Roof:
    """What a target can do at most: as `measure_peak()` found it, else by its facts."""
    if peak is not None:
        try:
            return Roof(max(peak["flops"], target.cores * peak.get("flops_one_core", 0.0)), peak["bytes"], "measured")
        except (KeyError, TypeError) as problem:
            raise UserError(f"peak is {peak!r}; give what ts.measure_peak() gives, or nothing for an estimate") from problem
    return Roof(*backend_of(target).expected_roof(target), "estimated")


def versions() -> tuple[tuple[str, str], ...]:
    """Of this process, which made the page; the records may be older."""
    found = [("Python", platform.python_version()), ("system", platform.platform())]
    for package in _PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return tuple(found)
