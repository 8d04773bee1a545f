"""GPUs at run time: what code for them can run here, and how a network gets into their memory. No compiler is loaded for that."""

from __future__ import annotations

from tensorsmith.backends.gpu.driver import Driver
from tensorsmith.backends.gpu.running import DeviceNetwork
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import InternalError, UserError
from tensorsmith.runtime.built import Code, Network
from tensorsmith.runtime.device import Device, Loaded
from tensorsmith.runtime.running import Running
from tensorsmith.targets.target import Target


def why_not(target: Target) -> str | None:
    """What this machine lacks that code for the target needs."""
    assert isinstance(target, GpuTarget)
    if target.dialect == "opencl":
        from tensorsmith.backends.gpu.opencl import why_not as opencl  # loads pyopencl

        return opencl(target)
    if target.dialect == "cuda":
        from tensorsmith.backends.gpu.cuda.driver import why_not as cuda  # loads the driver's library

        return cuda(target)
    return f"was compiled for {target.name}, and there is no driver for it here"


def driver_of(target: GpuTarget) -> Driver:
    """What runs code for a target here."""
    why = why_not(target)
    if why is not None:
        raise UserError(f"code {why}")
    if target.dialect == "cuda":
        from tensorsmith.backends.gpu.cuda.driver import driver as cuda

        return cuda()
    from tensorsmith.backends.gpu.opencl import driver

    return driver()


def load(network: Network) -> Running:
    target = network.target
    assert isinstance(target, GpuTarget)
    return DeviceNetwork(network, driver_of(target))


def _link(code: Code) -> Loaded:
    raise InternalError("the code of GPUs is no function of the host")


DEVICE = Device("gpu", why_not, _link, load)
