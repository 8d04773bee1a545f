"""The GPU that is here, through the drivers that are.

Target.native("gpu")        the first that is found, in the order of `FOUND_BY`
Target.native("opencl")     a device of any OpenCL driver: a GPU if there is one, else what there is
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorsmith.backends.gpu.named import word
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import UserError, install


def cuda() -> GpuTarget:
    """What NVIDIA's driver says of its first device."""
    from tensorsmith.backends.gpu.cuda.driver import detected

    return detected()


def hip() -> GpuTarget:
    """What AMD's runtime says of its first device."""
    from tensorsmith.backends.gpu.hip.driver import detected

    return detected()


def opencl() -> GpuTarget:
    """What the OpenCL device that is here says of itself."""
    return opencl_target(opencl_device())


def opencl_device() -> Any:
    """pyopencl's first GPU; where there is none, its first device of any kind."""
    try:
        import pyopencl
    except ImportError:
        raise UserError(f"no OpenCL here: pyopencl is not installed; {install('opencl')}") from None
    try:
        devices = [device for platform in pyopencl.get_platforms() for device in platform.get_devices()]
    except pyopencl.Error as error:
        raise UserError(f"no OpenCL device here: {error}; install its driver, or PoCL: pip install 'pyopencl[pocl]'") from None
    if not devices:
        raise UserError("no OpenCL device here: the drivers that are installed know none")
    gpus = [device for device in devices if device.type & pyopencl.device_type.GPU]
    return (gpus or devices)[0]


def opencl_target(device: Any) -> GpuTarget:
    """The facts that an OpenCL device tells. It tells no rates but its clock; the rest is what such devices usually have, and
    serves for comparing programs with each other."""
    lanes = max(1, getattr(device, "preferred_vector_width_float", 1))
    warp = _told(device, "warp_size_nv") or _told(device, "wavefront_width_amd") or lanes
    clock, units = max(1, device.max_clock_frequency) * 1e6, max(1, device.max_compute_units)
    per_unit = 128 if warp >= 32 else 2 * lanes  # multiply-adds in a cycle: of a GPU's lanes, or of two vector units
    return GpuTarget(
        word(device.name),
        "opencl",
        warp=warp,
        multiprocessors=units,
        registers=_told(device, "registers_per_block_nv") or 65536,
        shared_bytes=int(device.local_mem_size),
        shared_bytes_per_multiprocessor=int(device.local_mem_size),
        threads=int(device.max_work_group_size),
        threads_per_multiprocessor=max(2048, int(device.max_work_group_size)),
        l2_bytes=int(device.global_mem_cache_size) or 1 << 20,
        clock=clock,
        flops=2.0 * per_unit * clock * units,
        bytes_per_second=0.25 * per_unit * clock * units,
        l2_bytes_per_second=per_unit * clock * units,
    )


def _told(device: Any, fact: str) -> int:
    """A fact that only some makers' devices tell; 0 from the others, in whichever way they say that they do not know it."""
    try:
        return int(getattr(device, fact))
    except Exception:  # each binding and driver has a type of its own for this
        return 0


#: ways to find a device, by the name that `Target.native` takes
FOUND_BY: Mapping[str, Callable[[], GpuTarget]] = {"cuda": cuda, "hip": hip, "opencl": opencl}


def detect() -> GpuTarget:
    """The first device that is found."""
    reasons = []
    for find in FOUND_BY.values():
        try:
            return find()
        except UserError as error:
            reasons.append(str(error))
    raise UserError("no GPU here: " + "; ".join(reasons))
