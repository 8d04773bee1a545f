"""What runs the code of one kind of target, and the kinds there are. It needs no compiler.

A backend has two halves: its `Device`, which loads and runs what was built, and the rest, which builds (`backends/backend.py`).
Whoever opens a saved executable needs the first half alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tensorsmith.errors import UserError
from tensorsmith.runtime.built import Code, Guard, Network
from tensorsmith.targets.target import Target

if TYPE_CHECKING:
    from tensorsmith.runtime.running import Running


class Loaded(Protocol):
    """Code in the memory of this process. The addresses it gives are valid only while it lives."""

    code: Code

    def address(self, name: str) -> int:
        """Address of an exported function."""
        ...


@dataclass(frozen=True)
class Driver:
    """How the code of `runtime.driver` is made for a CPU: `text` of a target says what it is compiled from. `assemble` compiles
    other text that only some need."""

    text: Callable[[Target], str]
    compile: Callable[[Target], Code]
    assemble: Callable[[str, Target], Code]


@dataclass(frozen=True)
class Peak:
    """What the machine can do: `measure` is `measure_peak`, `one_round` is `peak_round`."""

    measure: Callable[[], dict[str, float]]
    one_round: Callable[[int, float], float]


@dataclass(frozen=True)
class Export:
    """How a library for programs in C is wanted; the arguments of `Executable.export`."""

    folder: Path
    name: str | None
    weights: str
    compiler: str | None
    guard: Guard | None = None  # of networks that check indices


@dataclass(frozen=True)
class Device:
    """What runs the code of one kind of target.

    `link` brings a kernel's code into this process, as functions on the host's memory; see `runtime.running` for how they are
    called. A kind whose code runs elsewhere gives a `load` of its own for whole networks.
    """

    kind: str
    why_not: Callable[[Target], str | None]  # why code for it cannot run here ("was compiled for ..., this is ..."); None: it can
    link: Callable[[Code], Loaded]
    load: Callable[[Network], Running] | None = None
    driver: Driver | None = None  # of kinds that are hosts: files bring it along, so that nothing is compiled where they are loaded
    peak: Peak | None = None
    export: Callable[[Network, Export], list[Path]] | None = None  # a library for programs in C


#: modules whose `DEVICE` runs a kind, imported when it is first asked for
_BUILT_IN = {"cpu": "tensorsmith.backends.cpu.device", "gpu": "tensorsmith.backends.gpu.device"}
_known: dict[str, Device] = {}


def register_device(device: Device) -> None:
    """Makes what runs another kind known to this process."""
    _known[device.kind] = device


def device_of(kind: str) -> Device:
    """What runs the code of a kind of targets."""
    if kind not in _known:
        if kind not in _BUILT_IN:
            known = ", ".join(dict.fromkeys([*_BUILT_IN, *_known]))
            raise UserError(f"nothing here runs code for targets of kind {kind!r}; known are {known}")
        _known[kind] = importlib.import_module(_BUILT_IN[kind]).DEVICE
    return _known[kind]


def measure_peak(kind: str = "cpu") -> dict[str, float]:
    """FMA peak in f32 operations per second of all cores ("flops") and of one ("flops_one_core"), and memory
    bandwidth in bytes read plus written per second ("bytes"). Best of several interleaved rounds; below a second.

    `kind` is that of the machine; there is one that can be measured, "cpu".

        peak = ts.measure_peak()
        print(peak["flops"] / 1e9, "GFLOP/s")
    """
    return _peak(kind).measure()


def peak_round(threads: int, seconds: float = 6e-3, kind: str = "cpu") -> float:
    """The FMA peak of so many threads, of one round that takes about that long: run between programs, it says what they could have
    had."""
    return _peak(kind).one_round(threads, seconds)


def _peak(kind: str) -> Peak:
    peak = device_of(kind).peak
    if peak is None:
        raise UserError(f"the peak of targets of kind {kind!r} cannot be measured")
    return peak
