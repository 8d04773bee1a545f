"""The CUDA layer on a driver that is an object of ours: loading, starting, timing, and every error in one line."""

from __future__ import annotations

import ctypes
import gc
import re
from types import SimpleNamespace

import numpy as np
import pytest
from tests.backends.gpu.fake_cuda import SECONDS_PER_INSTRUCTION, FakeCuda
from tests.backends.gpu.ptx import from_llvm

from tensorsmith.backends.gpu.cuda import clocks, facts
from tensorsmith.backends.gpu.cuda import driver as cuda
from tensorsmith.backends.gpu.cuda.interface import CUDA, MEANINGS, NAMES
from tensorsmith.backends.gpu.detect import FOUND_BY, detect
from tensorsmith.backends.gpu.launch import Launch, Launches
from tensorsmith.backends.gpu.library import api, arrays
from tensorsmith.backends.gpu.library.device import LibraryDriver
from tensorsmith.backends.gpu.library.errors import DriverError, DriverOutOfMemory
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.errors import UserError

PTX = from_llvm.ptx(from_llvm.product(32, 64, 16))
PRODUCT = Launches((Launch("product", 4, 256, 2048, (0, 1, 2)),), (), PTX, "ptx")
ENDLESS = PTX[: PTX.index("{")] + "{\n$L:\nbra.uni $L;\n}\n"


@pytest.fixture
def fake() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def device(fake: FakeCuda) -> LibraryDriver:
    return LibraryDriver(api.opened(CUDA, fake))


def product(device: LibraryDriver, launches: Launches = PRODUCT) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel gives, and what is right."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 64), np.float32), rng.standard_normal((64, 32), np.float32)
    at = [(device.allocate(x.nbytes), 0) for x in (a, b)] + [(device.allocate(4096 + 256), 256)]
    device.write(at[0], a)
    device.write(at[1], b)
    device.load(launches).start(0, at)
    c = np.empty((32, 32), np.float32)
    device.read(c, at[2])
    return c, a @ b


def test_a_kernel_from_memory_to_memory(device: LibraryDriver) -> None:
    found, wanted = product(device)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_time_is_the_devices(device: LibraryDriver, fake: FakeCuda) -> None:
    first = device.mark()
    product(device)
    between = device.mark()
    product(device)
    product(device)
    last = device.mark()
    assert between.since(first) == pytest.approx(fake.clock / 3, rel=1e-4) and fake.clock > 1000 * SECONDS_PER_INSTRUCTION
    assert last.since(between) == pytest.approx(2 * between.since(first), rel=1e-4)


def test_memory(device: LibraryDriver, fake: FakeCuda) -> None:
    a, b = device.allocate(1000), device.allocate(1000)
    device.fill(a, 1000, 7)
    device.copy((b, 10), (a, 0), 20)
    found = np.zeros(40, np.uint8)
    device.read(found, (b, 0))
    assert found[10:30].tolist() == [7] * 20 and found[30:].tolist() != [7] * 10
    held = len(fake.memory.sizes)
    del a, b
    gc.collect()
    assert len(fake.memory.sizes) == held - 2
    device.write((device.allocate(0), 0), np.empty(0, np.float32))  # nothing is copied
    assert repr(device.allocate(5)).startswith("LibraryMemory(5 bytes at 0x")


def test_modules_and_events_are_given_back(device: LibraryDriver, fake: FakeCuda) -> None:
    module = device.load(PRODUCT)
    assert module.registers(0) == 40 and module.spilled_bytes(0) == 0 and len(fake.modules) == 1
    device.mark()
    del module
    gc.collect()
    assert not fake.modules and not fake.events


def test_a_device_is_a_target(device: LibraryDriver) -> None:
    found, named = device.target, NAMED["a100"]
    assert found.name == "nvidia-a100-sxm4-40gb" and found.architecture == "sm_80" and found.dialect == "cuda"
    for fact in ("warp", "multiprocessors", "registers", "shared_bytes", "shared_bytes_per_multiprocessor", "shared_bytes_reserved",
                 "threads", "threads_per_multiprocessor", "blocks_per_multiprocessor", "l2_bytes", "clock"):  # fmt: skip
        assert getattr(found, fact) == getattr(named, fact), fact
    assert found.flops == pytest.approx(named.flops, rel=0.01)
    assert found.bytes_per_second == pytest.approx(named.bytes_per_second, rel=0.01)


def test_an_old_driver_does_not_know_all_facts() -> None:
    few = {n: v for n, v in FakeCuda().attributes.items() if n not in (36, 37, 106, 111)}
    found = facts.target(api.opened(CUDA, FakeCuda(few)))
    assert found.shared_bytes_reserved == 0 and found.bytes_per_second > 1e11


class Nvml:
    """As much of NVML as is asked; `knows`: which numbers it gives."""

    def __init__(self, knows: tuple[str, ...] = ("clock 1", "clock 2", "celsius 0")) -> None:
        self.knows = knows

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, place: bytes, to: object) -> int:
        to._obj.value = 77
        return 0 if place == b"0000:c1:00.0" else 6

    def nvmlDeviceGetClockInfo(self, device: object, kind: int, to: object) -> int:
        return self._said(f"clock {kind}", device, to, {1: 1395, 2: 1215}[kind])

    def nvmlDeviceGetTemperature(self, device: object, kind: int, to: object) -> int:
        return self._said(f"celsius {kind}", device, to, 54)

    def _said(self, what: str, device: object, to: object, number: int) -> int:
        to._obj.value = number
        return 0 if what in self.knows and device.value == 77 else 3


def test_clocks_of_now(device: LibraryDriver, fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """By NVML; the driver's highest, where that does not tell."""
    monkeypatch.setattr(clocks, "library", lambda: Nvml())
    assert device.clocks() == "SM 1395 MHz, memory 1215 MHz, 54 degrees"
    monkeypatch.setattr(clocks, "library", lambda: Nvml(("celsius 0",)))
    assert device.clocks() == "54 degrees"
    for library in (None, Nvml(())):
        monkeypatch.setattr(clocks, "library", lambda library=library: library)
        assert device.clocks() == "clock at most 1410 MHz"
    monkeypatch.setattr(clocks, "library", lambda: Nvml())
    fake.faults["cuDeviceGetPCIBusId"] = 1
    assert device.clocks() == "clock at most 1410 MHz"


def test_how_nvml_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    every = SimpleNamespace(**{name: SimpleNamespace() for name in clocks.FUNCTIONS})

    class Init:
        def __init__(self, result: int) -> None:
            self.result = result

        def __call__(self) -> int:
            return self.result

    def missing(name: str) -> None:
        raise OSError(name)

    try:
        for result, wanted in ((0, every), (9, None)):
            clocks.library.cache_clear()
            every.nvmlInit_v2 = Init(result)
            monkeypatch.setattr(ctypes, "CDLL", lambda name: every)
            assert clocks.library() is wanted
        assert every.nvmlDeviceGetClockInfo.argtypes == clocks.FUNCTIONS["nvmlDeviceGetClockInfo"]
        for opened in (missing, lambda name: SimpleNamespace()):
            clocks.library.cache_clear()
            monkeypatch.setattr(ctypes, "CDLL", opened)
            assert clocks.library() is None
    finally:
        clocks.library.cache_clear()


# -- what can go wrong ---------------------------------------------------------------------------------------------------


def told(problem: BaseException) -> str:
    """The message, which is one line."""
    assert "\n" not in str(problem) and len(str(problem)) < 260
    return str(problem)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    cuda.driver.cache_clear()
    with pytest.raises(UserError) as caught:
        FOUND_BY["cuda"]()
    assert told(caught.value) == "no CUDA here: there is no libcuda.so.1; install NVIDIA's driver"
    assert "was compiled for a100, and no CUDA here" in str(cuda.why_not(NAMED["a100"]))
    with pytest.raises(UserError, match="no GPU here: no CUDA here: there is no libcuda"):
        monkeypatch.setitem(__import__("sys").modules, "pyopencl", None)
        detect()


def test_a_library_that_lacks_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuInit=SimpleNamespace()))
    with pytest.raises(UserError, match="has no function cuDriverGetVersion; install a newer NVIDIA driver"):
        api.library(CUDA)


def test_the_librarys_functions_get_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    every = SimpleNamespace(**{name: SimpleNamespace() for name in CUDA.functions.values()})
    monkeypatch.setattr(ctypes, "CDLL", lambda name: every)
    assert api.library(CUDA) is every and every.cuMemAlloc_v2.argtypes[1] is ctypes.c_size_t
    assert len(every.cuLaunchKernel.argtypes) == 11 and every.cuLaunchKernel.restype is ctypes.c_int
    own = {name for name in dir(FakeCuda) if name.startswith("cu")}
    assert own == set(CUDA.functions.values())  # what the fake has, the table has, and the other way round


def test_wrong_driver_version(fake: FakeCuda) -> None:
    fake.version = 10020
    with pytest.raises(UserError) as caught:
        api.opened(CUDA, fake)
    assert told(caught.value) == "no CUDA here: the driver is for CUDA 10.2, and 11.0 is needed; install a newer NVIDIA driver"


def test_no_device() -> None:
    with pytest.raises(DriverError) as caught:
        api.opened(CUDA, FakeCuda(devices=0))
    assert "starting CUDA's driver failed with CUDA_ERROR_NO_DEVICE: the driver knows no device" in told(caught.value)
    with pytest.raises(UserError, match="there is no CUDA device 3; there are 1, from 0 on"):
        LibraryDriver(api.opened(CUDA, FakeCuda()), 3)
    hidden = FakeCuda()
    hidden.cuInit(0)
    hidden.devices = 0
    hidden.faults["cuInit"] = 0
    with pytest.raises(DriverError, match="finding a CUDA device failed with CUDA_ERROR_NO_DEVICE"):
        api.opened(CUDA, hidden)


def test_out_of_memory(device: LibraryDriver) -> None:
    with pytest.raises(DriverOutOfMemory) as caught:
        device.allocate(1 << 40)
    assert isinstance(caught.value, MemoryError) and caught.value.code == 2
    assert "CUDA device NVIDIA A100-SXM4-40GB: 1,099,511,627,776 bytes of memory failed with CUDA_ERROR_OUT_OF_MEMORY" in told(
        caught.value
    )


def test_a_kernel_that_never_ends(fake: FakeCuda) -> None:
    fake.steps = 500
    times = iter(range(1000))
    device = LibraryDriver(api.opened(CUDA, fake), patience=30, now=lambda: float(next(times)))
    device.load(Launches(PRODUCT.launches, (), ENDLESS, "ptx")).start(0, [(device.allocate(64), 0)] * 3)
    with pytest.raises(UserError) as caught:
        device.finish()
    assert told(caught.value).endswith("a kernel has not ended after 30 seconds; end this process to stop it")
    first, last = device.mark(), device.mark()
    with pytest.raises(UserError, match="has not ended"):
        last.since(first)


def test_a_kernel_that_the_system_stops(device: LibraryDriver, fake: FakeCuda) -> None:
    fake.faults["cuStreamQuery"] = 702
    with pytest.raises(DriverError, match="CUDA_ERROR_LAUNCH_TIMEOUT: a kernel did not end in the time that the system gives it"):
        product(device)


def test_a_kernel_that_touches_what_is_not_its_own(device: LibraryDriver) -> None:
    module = device.load(PRODUCT)
    module.start(0, [(device.allocate(64), 0)] * 3)
    with pytest.raises(DriverError, match=r"a kernel failed with CUDA_ERROR_ILLEGAL_ADDRESS: .* has to be started anew"):
        device.finish()
    with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):  # and it stays so
        device.allocate(4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: "", r"compiling failed with CUDA_ERROR_INVALID_PTX: .* does not take the code \(ptxas .* there is no entry"),
        (lambda t: re.sub(r"\.version \S+", ".version 9.9", t), "UNSUPPORTED_PTX_VERSION: the driver is older than the code"),
        (lambda t: t.replace("product", "other"), "finding kernel product failed with CUDA_ERROR_NOT_FOUND"),
    ],
    ids=["no code", "newer code", "another kernel"],
)
def test_code_that_cannot_be_loaded(device: LibraryDriver, change: object, message: str) -> None:
    assert callable(change)
    with pytest.raises(DriverError, match=message) as caught:
        device.load(Launches(PRODUCT.launches, (), change(PTX), "ptx"))
    told(caught.value)


def test_code_of_another_language(device: LibraryDriver) -> None:
    with pytest.raises(UserError, match="CUDA loads ptx, and this code is opencl; compile it for a CUDA target, such as a100"):
        device.load(Launches(PRODUCT.launches, (), "kernel void f() {}"))


def test_too_many_threads(device: LibraryDriver) -> None:
    module = device.load(Launches((Launch("product", 4, 4096, 2048, (0, 1, 2)),), (), PTX, "ptx"))
    with pytest.raises(DriverError, match="kernel product failed with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
        module.start(0, [(device.allocate(64), 0)] * 3)


@pytest.mark.parametrize("function", sorted({"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel", "cuStreamQuery",
                                             "cuMemAlloc_v2", "cuModuleLoadDataEx", "cuModuleGetFunction"}))  # fmt: skip
@pytest.mark.parametrize("code", [1, 719, 12345, 4321])
def test_every_function_that_fails_is_noticed(device: LibraryDriver, fake: FakeCuda, function: str, code: int) -> None:
    fake.faults[function] = code
    with pytest.raises(DriverError) as caught:
        product(device)
    names = {1: "CUDA_ERROR_INVALID_VALUE", 719: "CUDA_ERROR_LAUNCH_FAILED", 4321: "result 4321"}
    assert caught.value.code == code and names.get(code, "") in told(caught.value)
    if code == 12345:
        assert "CUDA_ERROR_OF_TOMORROW" in str(caught.value)


@pytest.mark.parametrize("function", ["cuDriverGetVersion", "cuInit", "cuDeviceGetCount"])
def test_a_driver_that_fails_at_the_beginning(fake: FakeCuda, function: str) -> None:
    fake.faults[function] = 999
    with pytest.raises(DriverError, match="CUDA_ERROR_UNKNOWN"):
        api.opened(CUDA, fake)


@pytest.mark.parametrize("function", ["cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuStreamCreate", "cuDeviceGetName"])
def test_a_device_that_cannot_be_opened(fake: FakeCuda, function: str) -> None:
    opened = api.opened(CUDA, fake)
    fake.faults[function] = 46
    with pytest.raises(DriverError, match="CUDA_ERROR_DEVICE_UNAVAILABLE: another process has the device for itself"):
        LibraryDriver(opened)


def test_what_is_meant_is_named() -> None:
    assert MEANINGS.keys() <= NAMES.keys()


# -- arrays of others ----------------------------------------------------------------------------------------------------


def test_arrays_are_given_and_taken_by_their_interface(device: LibraryDriver) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    ours = arrays.on_device(x, device)
    shown = ours.__cuda_array_interface__
    assert (
        shown["shape"] == (3, 4) and shown["typestr"] == "<f4" and shown["data"] == (ours.address, False) and shown["version"] == 3
    )
    theirs = SimpleNamespace(__cuda_array_interface__=shown)
    found = arrays.taken(theirs, device)
    assert found.address == ours.address and found.memory.owner is theirs
    np.testing.assert_array_equal(found.numpy(), x)
    assert arrays.is_on_device(theirs, device) and arrays.is_on_device(ours, device)
    assert not arrays.is_on_device(x, device) and not arrays.is_on_device(3, device)
    assert arrays.taken(ours, device) is ours and "float32[3, 4] on NVIDIA" in repr(ours)


@pytest.mark.parametrize(
    ("strides", "fits"),
    [(None, True), ((16, 4), True), ((4, 12), False), ((32, 4), False)],
    ids=["none", "dense", "turned", "gaps"],
)
def test_only_contiguous_arrays_are_taken(device: LibraryDriver, strides: tuple[int, int] | None, fits: bool) -> None:
    shown = {**arrays.on_device(np.zeros((3, 4), np.float32), device).__cuda_array_interface__, "strides": strides}
    theirs = SimpleNamespace(__cuda_array_interface__=shown)
    if fits:
        assert arrays.taken(theirs, device).shape == (3, 4)
    else:
        with pytest.raises(UserError, match="x is not C-contiguous"):
            arrays.taken(theirs, device, "x")


class Theirs:
    """An array of another package, which knows DLPack alone."""

    def __init__(self, inner: arrays.DeviceArray) -> None:
        self.inner = inner

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None) -> object:
        return self.inner.__dlpack__(stream=stream)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(2, 3, 4), (5,), ()])
def test_dlpack(device: LibraryDriver, fake: FakeCuda, dtype: type, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    ours = arrays.on_device(x, device)
    address = ours.address
    found = arrays.taken(Theirs(ours), device)
    del ours
    gc.collect()
    assert address in fake.memory.sizes  # kept, by whoever took it
    assert found.shape == shape and found.dtype == dtype and found.address == address
    np.testing.assert_array_equal(found.numpy(), x)
    del found
    gc.collect()
    assert address not in fake.memory.sizes and not arrays._given


def test_a_capsule_that_nobody_takes_keeps_nothing(device: LibraryDriver) -> None:
    capsule = arrays.on_device(np.zeros(3, np.float32), device).__dlpack__()
    assert len(arrays._given) == 1
    del capsule
    gc.collect()
    assert not arrays._given


def test_what_is_not_on_a_device(device: LibraryDriver) -> None:
    with pytest.raises(UserError, match="x is not in the memory of a CUDA device"):
        arrays.taken(np.zeros(3), device, "x")


def test_where_code_can_run(monkeypatch: pytest.MonkeyPatch, device: LibraryDriver) -> None:
    monkeypatch.setattr(cuda, "driver", lambda number=0: device)
    assert cuda.why_not(NAMED["a100"]) is None and cuda.why_not(NAMED["t4"]) is None
    assert cuda.why_not(NAMED["h100"]) == "was compiled for h100 (sm_90), nvidia-a100-sxm4-40gb is sm_80"
    large = NAMED["a100"].with_facts(shared_bytes=99 << 10)
    assert "shared_bytes 101376; nvidia-a100-sxm4-40gb has 49152" in str(cuda.why_not(large))
    assert cuda.detected() is device.target
