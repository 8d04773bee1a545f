"""A HIP device as a target: what AMD's runtime tells of it, and for the rest a GPU that we know and that is like it."""

from __future__ import annotations

import ctypes
import dataclasses
import re
from typing import Any

from tensorsmith.backends.gpu.library.api import Api
from tensorsmith.backends.gpu.named import NAMED, word
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import UserError

#: hip_runtime_api.h, `hipDeviceAttribute_t`: numbers that the runtime gives for each of our facts
ATTRIBUTES = {
    "clock_khz": 5, "threads": 56, "threads_per_multiprocessor": 57, "multiprocessors": 63, "shared_bytes": 74, "warp": 87,
    "shared_bytes_per_multiprocessor": 10002,
}  # fmt: skip
_PROPERTIES_BYTES = 8192  # more than `hipDeviceProp_t` of any version has
_NAME_BYTES = 256  # of its first field, which is the device's name


def target(api: Api, number: int = 0) -> GpuTarget:
    """Registers, waves and caches are those of the GPU of the same architecture, or else of one with as wide warps. The runtime
    tells the memory's clock, but not how often a clock moves data: bytes for each operation are that GPU's too."""
    told = api.told(ATTRIBUTES, number)
    found = architecture(api, number)
    amd = [t for t in NAMED.values() if t.dialect == "amd"]
    like = min(amd, key=lambda t: (t.architecture != found, t.warp != told["warp"]))
    clock = told.pop("clock_khz") * 1e3 or like.clock
    facts: dict[str, Any] = {fact: value for fact, value in told.items() if value}
    flops = 2.0 * like.fmas_per_cycle * clock * facts.get("multiprocessors", like.multiprocessors)
    share = flops / like.flops
    return dataclasses.replace(
        like,
        **facts,
        device=word(api.device_name(number)),
        architecture=found,
        clock=clock,
        flops=flops,
        bytes_per_second=share * like.bytes_per_second,
        l2_bytes_per_second=share * like.l2_bytes_per_second,
    )


def architecture(api: Api, number: int) -> str:
    """LLVM's name of it, "gfx942". It is one of many fields, elsewhere in every version; its text tells it from the others."""
    held = ctypes.create_string_buffer(_PROPERTIES_BYTES)
    api.call("GetDeviceProperties", held, number, what="asking a HIP device for its properties")
    found = re.search(rb"gfx[0-9a-f]+", held.raw[_NAME_BYTES:])
    if found is None:
        raise UserError(f"HIP device {api.device_name(number)} does not say what its architecture is (gfx...)")
    return found[0].decode()
