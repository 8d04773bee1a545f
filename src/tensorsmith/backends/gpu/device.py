"""GPUs at run time: what code for them can run here, and how a network gets into their memory. No compiler is loaded for that."""

from __future__ import annotations

import importlib
from typing import Any

from tensorsmith.backends.gpu.driver import Driver
from tensorsmith.backends.gpu.running import DeviceNetwork
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import InternalError, UserError
from tensorsmith.runtime.built import Code, Network
from tensorsmith.runtime.device import Device, Loaded
from tensorsmith.runtime.running import Running
from tensorsmith.targets.target import Target

#: by the target's dialect: a module with `why_not(target)` and `driver()`; each loads a library
_DRIVERS = {
    "opencl": "tensorsmith.backends.gpu.opencl",
    "cuda": "tensorsmith.backends.gpu.cuda.driver",
    "amd": "tensorsmith.backends.gpu.hip.driver",
}


def why_not(target: Target) -> str | None:
    """What this machine lacks that code for the target needs."""
    assert isinstance(target, GpuTarget)
    found: str | None = _module(target).why_not(target)
    return found


def driver_of(target: GpuTarget) -> Driver:
    """What runs code for a target here."""
    why = why_not(target)
    if why is not None:
        raise UserError(f"code {why}")
    found: Driver = _module(target).driver()
    return found


def _module(target: GpuTarget) -> Any:
    return importlib.import_module(_DRIVERS[target.dialect])


def load(network: Network) -> Running:
    target = network.target
    assert isinstance(target, GpuTarget)
    return DeviceNetwork(network, driver_of(target))


def _link(code: Code) -> Loaded:
    raise InternalError("the code of GPUs is no function of the host")


DEVICE = Device("gpu", why_not, _link, load)
