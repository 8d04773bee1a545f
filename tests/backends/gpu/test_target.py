"""GPUs as targets: by name, in JSON, and found through drivers."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

import tensorsmith as ts
from tensorsmith.backends.gpu import detect
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.target import DIALECTS, GpuTarget
from tensorsmith.errors import UserError
from tensorsmith.targets.target import Target


def test_by_name() -> None:
    assert {"v100-pcie", "k80", "rtx3080", "rtx3080-12gb", "mi50"} <= ts.targets().keys()
    assert {"a100", "v100", "t4", "h100", "rtx4090", "mi300x", "opencl"} <= ts.targets().keys()
    one = ts.Target.named("a100")
    assert isinstance(one, GpuTarget) and one.kind == "gpu" and one.name == "a100" and one.cores == one.multiprocessors == 108
    assert ts.Target.named("a100", multiprocessors=54).cores == 54


@pytest.mark.parametrize("name", NAMED)
def test_the_facts_of_each_agree_with_each_other(name: str) -> None:
    """Rates follow from lanes and clocks on every real device, within the rounding of data sheets; limits contain each other."""
    t = NAMED[name]
    assert t.name == name and t.dialect in DIALECTS
    if t.architecture:
        assert t.fmas_per_cycle == pytest.approx(round(t.fmas_per_cycle / 64) * 64, rel=0.006)
    assert t.shared_bytes <= t.shared_bytes_per_multiprocessor and t.threads <= t.threads_per_multiprocessor
    assert t.threads % t.warp == 0 and t.register_unit % t.warp == 0
    assert t.registers_per_thread <= t.registers // t.warp
    assert t.bytes_per_second < t.l2_bytes_per_second < t.flops


def test_keys_differ() -> None:
    assert len({t.key for t in ts.targets().values()}) == len(ts.targets())


def test_json() -> None:
    for t in NAMED.values():
        assert Target.from_json(json.loads(json.dumps(t.to_json()))) == t
    assert Target.from_json({"kind": "gpu", "device": "a", "clock": 1000000000, "later": 3}).clock == 1e9
    with pytest.raises(UserError, match="clock is 'fast'"):
        Target.from_json({"kind": "gpu", "device": "a", "clock": "fast"})
    with pytest.raises(UserError, match="flops is True"):
        Target.from_json({"kind": "gpu", "device": "a", "flops": True})


DEVICE = {
    "name": "Some GPU (TM)", "type": 4, "max_compute_units": 20, "max_clock_frequency": 1500, "local_mem_size": 49152,
    "max_work_group_size": 1024, "global_mem_cache_size": 2 << 20, "preferred_vector_width_float": 1,
}  # fmt: skip


def pyopencl(*devices: SimpleNamespace, error: str | None = None) -> ModuleType:
    """As much of the module as finding devices needs."""
    module = ModuleType("pyopencl")

    class Error(Exception):
        pass

    def get_platforms() -> list[SimpleNamespace]:
        if error:
            raise Error(error)
        return [SimpleNamespace(get_devices=lambda: list(devices))]

    vars(module).update(Error=Error, get_platforms=get_platforms, device_type=SimpleNamespace(GPU=4))
    return module


def test_an_opencl_device(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = SimpleNamespace(**{**DEVICE, "name": "a CPU", "type": 2, "preferred_vector_width_float": 8})
    gpu = SimpleNamespace(**DEVICE, warp_size_nv=32)
    monkeypatch.setitem(sys.modules, "pyopencl", pyopencl(cpu, gpu))
    found = detect.opencl()
    assert (found.name, found.warp, found.multiprocessors, found.shared_bytes) == ("some-gpu-tm", 32, 20, 49152)
    assert found.dialect == "opencl" and found.clock == 1.5e9 and found.l2_bytes == 2 << 20
    assert detect.detect() == found  # there is no CUDA device where tests run
    monkeypatch.setitem(sys.modules, "pyopencl", pyopencl(cpu))
    assert detect.opencl().name == "a-cpu" and detect.opencl().warp == 8


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (None, r"pyopencl is not installed; pip install '\.\[opencl\]' in a checkout"),
        (pyopencl(error="PLATFORM_NOT_FOUND_KHR"), "no OpenCL device here: PLATFORM_NOT_FOUND_KHR"),
        (pyopencl(), "the drivers that are installed know none"),
    ],
)
def test_where_there_is_no_device(monkeypatch: pytest.MonkeyPatch, module: ModuleType | None, message: str) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", module)
    with pytest.raises(UserError, match=message):
        detect.opencl()
    with pytest.raises(UserError, match=f"no GPU here: .*{message}"):
        detect.detect()


def test_ways_to_find_a_device_are_names_that_native_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorsmith.targets import target

    monkeypatch.setitem(sys.modules, "pyopencl", pyopencl(SimpleNamespace(**DEVICE)))
    target._native.cache_clear()
    try:
        assert Target.native("opencl").name == "some-gpu-tm"
    finally:
        target._native.cache_clear()
