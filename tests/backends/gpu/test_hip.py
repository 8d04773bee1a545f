"""The HIP layer on a library that is an object of ours: linking, loading, starting, timing, and every error in one line.

What HIP shares with CUDA is tested there (`test_cuda.py`); here is what it calls otherwise, and that all of it is called.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.backends.gpu.drawn import WORKLOADS, candidates
from tests.backends.gpu.fake_hip import OWN, SAME, FakeComgr, FakeHip

import tensorsmith as ts
from tensorsmith.backends.gpu.detect import FOUND_BY
from tensorsmith.backends.gpu.hip import clocks, link
from tensorsmith.backends.gpu.hip import driver as hip
from tensorsmith.backends.gpu.hip.interface import HIP, MEANINGS, NAMES
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.library import api, arrays
from tensorsmith.backends.gpu.library.api import TYPES
from tensorsmith.backends.gpu.library.device import LibraryDriver
from tensorsmith.backends.gpu.library.errors import DriverError, DriverOutOfMemory
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.build import build_kernel
from tensorsmith.errors import UserError
from tensorsmith.runtime.executable import Executable
from tensorsmith.targets.target import Target

MI300X = NAMED["mi300x"]
A = np.random.default_rng(0).standard_normal((24, 32)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((32, 40)).astype(np.float32)
WANTED = np.maximum(A @ B, 0)


def compiled(target: str | GpuTarget = "mi300x") -> Executable:
    """A product and what comes behind it."""
    a, b = ts.placeholder((24, 32), name="A"), ts.placeholder((32, 40), name="B", constant=True)
    k = ts.reduce_axis(32, name="k")
    c = ts.compute((24, 40), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    return ts.compile([a, b, ts.compute((24, 40), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")], target=target)


@pytest.fixture(scope="module")
def kernel() -> Executable:
    return compiled()


@pytest.fixture
def comgr(monkeypatch: pytest.MonkeyPatch) -> FakeComgr:
    found = FakeComgr()
    monkeypatch.setattr(link, "library", lambda: found)
    monkeypatch.setattr(link, "found_linker", lambda: None)
    return found


@pytest.fixture
def fake(kernel: Executable) -> FakeHip:
    return FakeHip(kernel.source("ptx"))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, comgr: FakeComgr, fake: FakeHip) -> LibraryDriver:
    found = LibraryDriver(api.opened(HIP, fake))
    monkeypatch.setattr(hip, "driver", lambda number=0: found)
    return found


def launches(kernel: Executable) -> Launches:
    return Launches.from_bytes(kernel.network.kernels[0].code.data)


def test_a_workload(device: LibraryDriver, fake: FakeHip, comgr: FakeComgr, kernel: Executable, tmp_path: Path) -> None:
    bound = kernel.bind(B=B)
    np.testing.assert_allclose(bound(A), WANTED, rtol=1e-4, atol=1e-4)
    assert fake.chosen == 0 and comgr.isa == b"amdgcn-amd-amdhsa--gfx942" and not comgr.alive
    bound.save(tmp_path / "kernel.tsm")
    np.testing.assert_allclose(ts.load_executable(tmp_path / "kernel.tsm")(A), WANTED, rtol=1e-4, atol=1e-4)


def test_times_are_the_devices(device: LibraryDriver, fake: FakeHip, kernel: Executable) -> None:
    prepared = kernel.bind(B=B).prepare(A)
    before = fake.clock
    seconds = prepared.seconds(3)
    assert seconds > 1e-7 and seconds == pytest.approx((fake.clock - before) / 3, rel=1e-3)


def test_what_is_loaded_is_kept_and_given_back(device: LibraryDriver, fake: FakeHip, kernel: Executable) -> None:
    module = device.load(launches(kernel))
    assert module.registers(0) == 40 and len(fake.modules) == 1
    device.mark()
    del module
    gc.collect()
    assert not fake.modules and not fake.events


def test_arrays_in_device_memory(device: LibraryDriver, kernel: Executable) -> None:
    x = arrays.on_device(A, device)
    assert x.__dlpack_device__() == (10, 0)  # `kDLROCM`
    streams = []

    class Theirs:
        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

        def __dlpack__(self, stream: int | None = None) -> object:
            streams.append(stream)
            return x.__dlpack__(stream=stream)

    y = kernel.bind(B=B)(Theirs())
    assert isinstance(y, arrays.DeviceArray) and streams == [0]
    np.testing.assert_allclose(y.numpy(), WANTED, rtol=1e-4, atol=1e-4)


def test_a_device_is_a_target(device: LibraryDriver, fake: FakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    found = device.target
    assert (found.name, found.architecture, found.dialect) == ("amd-instinct-mi300x", "gfx942", "amd")
    assert found == MI300X.with_facts(device="amd-instinct-mi300x", flops=found.flops, bytes_per_second=found.bytes_per_second,
                                      l2_bytes_per_second=found.l2_bytes_per_second)  # fmt: skip
    assert found.flops == pytest.approx(MI300X.flops, rel=0.01)
    fake.attributes = {**fake.attributes, 63: 152, 87: 32}
    fake.architecture = b"gfx1201"
    other = HIP.facts(device.api, 0)
    radeon = NAMED["rx7900xtx"]
    assert other.architecture == "gfx1201" and other.registers == radeon.registers and other.multiprocessors == 152
    assert other.flops == pytest.approx(radeon.flops * 152 / 96 * 2.1 / 2.5)
    fake.architecture = b""
    with pytest.raises(UserError, match="MI300X does not say what its architecture is"):
        HIP.facts(device.api, 0)


def test_clocks_of_now(device: LibraryDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the files of the system's driver; the highest, where it has none."""
    monkeypatch.setattr(clocks.clocks, "__defaults__", (tmp_path,))
    assert device.clocks() == "clock at most 2100 MHz"
    folder = tmp_path / "0000:c1:00.0"
    folder.mkdir()
    (folder / "pp_dpm_sclk").write_text("0: 132Mhz\n1: 1980Mhz *\n2: 2100Mhz\n")
    assert device.clocks() == "compute units 1980 MHz"
    (folder / "pp_dpm_mclk").write_text("0: 900Mhz\n1: 1300Mhz *\n")
    assert device.clocks() == "compute units 1980 MHz, memory 1300 MHz"
    (folder / "pp_dpm_sclk").write_text("nothing that is known\n")
    assert device.clocks() == "memory 1300 MHz"


def test_native(device: LibraryDriver) -> None:
    from tensorsmith.targets import target

    target._native.cache_clear()
    try:
        assert Target.native("hip") == device.target == FOUND_BY["hip"]()
    finally:
        target._native.cache_clear()


def test_where_code_can_run(device: LibraryDriver, kernel: Executable) -> None:
    assert hip.why_not(MI300X) is None
    assert hip.why_not(NAMED["mi250x"]) == "was compiled for mi250x (gfx90a), amd-instinct-mi300x is gfx942"
    assert "shared_bytes 131072; amd-instinct-mi300x has 65536" in str(hip.why_not(MI300X.with_facts(shared_bytes=128 << 10)))
    with pytest.raises(UserError, match=r"D was compiled for rx7900xtx .gfx1100., amd-instinct-mi300x is gfx942"):
        compiled("rx7900xtx").bind(B=B)(A)


# -- the code ------------------------------------------------------------------------------------------------------------


def test_objects_have_what_hip_needs(kernel: Executable) -> None:
    """Descriptors and their kernels protected, code objects of version 5, every argument an address of eight bytes."""
    made = launches(kernel)
    assert made.language == "amdgpu"
    code = base64.b64decode(made.text)
    assert code[:4] == b"\x7fELF" and struct.unpack_from("<HH", code, 16) == (1, 224)  # relocatable, for AMD's GPUs
    assert code[7:9] == bytes([64, 3])  # AMD's HSA, version 5
    text = kernel.source("amdgcn")
    assert ".amdhsa_code_object_version 5" in text
    for one in made.launches:
        assert f".protected\t{one.kernel}" in text and f".symbol:         {one.kernel}.kd" in text
    kinds = re.findall(r"\.value_kind: +(\S+)", text)
    assert kinds == ["global_buffer"] * sum(len(one.arguments) for one in made.launches)
    offsets = re.findall(r"\.offset: +(\d+)\n +\.size: +8", text)
    assert offsets == [str(8 * n) for one in made.launches for n in range(len(one.arguments))]


@pytest.mark.gpu
def test_llvms_linker(kernel: Executable, fake: FakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real linker: what it makes is loaded too, and the descriptors point to the code."""
    monkeypatch.setattr(link, "library", lambda: None)
    made = launches(kernel)
    image = link.linked(base64.b64decode(made.text), "gfx942")
    assert struct.unpack_from("<H", image, 16) == (3,)
    symbols = dynamic_symbols(image)
    for one in made.launches:
        descriptor, code = symbols[f"{one.kernel}.kd"], symbols[one.kernel]
        (offset,) = struct.unpack_from("<q", image, descriptor + 16)  # of the code from the descriptor
        assert descriptor + offset == code
    found = LibraryDriver(api.opened(HIP, fake)).load(made)
    assert len(found.launches) == len(made.launches)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["mi300x", "mi250x", "rx7900xtx"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_code_of_every_kind_links(name: str, device: str) -> None:
    (candidate,) = candidates(WORKLOADS[name], 1, 4, NAMED[device])
    made = Launches.from_bytes(build_kernel(candidate, NAMED[device]).code.data)
    image = link.by_linker(str(link.found_linker()), base64.b64decode(made.text))
    symbols = dynamic_symbols(image)
    for one in made.launches:
        (offset,) = struct.unpack_from("<q", image, symbols[f"{one.kernel}.kd"] + 16)
        assert symbols[f"{one.kernel}.kd"] + offset == symbols[one.kernel]
        (shared,) = struct.unpack_from("<I", image, symbols[f"{one.kernel}.kd"])  # the descriptor's first number
        assert 0 <= one.shared_bytes - shared < 16  # the last array's end is not rounded up


def dynamic_symbols(image: bytes) -> dict[str, int]:
    """By name: where each begins, in memory, which for those of the first segment is where they are in the file too."""
    (sections,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", image, sections + n * size) for n in range(count)]
    table = next(h for h in heads if h[1] == 11)  # SHT_DYNSYM
    names = heads[table[6]][4]
    found = {}
    for at in range(table[4], table[4] + table[5], 24):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
        found[image[names + name : image.index(b"\0", names + name)].decode()] = value
    return found


# -- what can go wrong ---------------------------------------------------------------------------------------------------


def told(problem: BaseException) -> str:
    """The message, which is one line."""
    assert "\n" not in str(problem) and len(str(problem)) < 260
    return str(problem)


def test_no_library(monkeypatch: pytest.MonkeyPatch, kernel: Executable) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    hip.driver.cache_clear()
    with pytest.raises(UserError) as caught:
        FOUND_BY["hip"]()
    assert told(caught.value) == "no HIP here: there is no libamdhip64.so.6; install AMD's ROCm"
    with pytest.raises(UserError, match="D was compiled for mi300x, and no HIP here: there is no libamdhip64"):
        kernel.bind(B=B)(A)


def test_the_librarys_functions_get_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    every = SimpleNamespace(**{name: SimpleNamespace() for name in HIP.functions.values()})
    tried = []

    def opened(name: str) -> SimpleNamespace:
        tried.append(name)
        if len(tried) < 3:
            raise OSError(name)
        return every

    monkeypatch.setattr(ctypes, "CDLL", opened)
    assert api.library(HIP) is every and tried == list(HIP.files[:3])
    assert every.hipMalloc.argtypes == TYPES["MemAlloc"] and every.hipMalloc.restype is ctypes.c_int
    assert every.hipGetErrorName.restype is ctypes.c_char_p and every.hipSetDevice.argtypes == (ctypes.c_int,)
    assert set(HIP.functions) == TYPES.keys() | HIP.own.keys()
    assert set(HIP.functions.values()) == {*SAME, *OWN}  # what the fake has, the table has, and the other way round
    del every.hipGetDevicePropertiesR0600
    with pytest.raises(UserError, match="has no function hipGetDevicePropertiesR0600; install a newer ROCm"):
        api.library(HIP)


def test_wrong_version(fake: FakeHip) -> None:
    fake.version = 50_221_153
    with pytest.raises(UserError) as caught:
        api.opened(HIP, fake)
    assert told(caught.value) == "no HIP here: the driver is for HIP 5.2, and 6.0 is needed; install a newer ROCm"


def test_no_device() -> None:
    with pytest.raises(DriverError) as caught:
        api.opened(HIP, FakeHip(devices=0))
    assert "starting HIP's driver failed with hipErrorNoDevice: ROCm knows no device; is one there" in told(caught.value)
    without = FakeHip()
    without.faults["hipInit"] = 101  # as the real one does where there is nothing
    with pytest.raises(DriverError, match="starting HIP's driver failed with hipErrorInvalidDevice: ROCm knows no device"):
        api.opened(HIP, without)
    with pytest.raises(UserError, match="there is no HIP device 3; there are 1, from 0 on"):
        LibraryDriver(api.opened(HIP, FakeHip()), 3)


def test_out_of_memory(device: LibraryDriver) -> None:
    with pytest.raises(DriverOutOfMemory) as caught:
        device.allocate(1 << 40)
    assert isinstance(caught.value, MemoryError)
    assert "HIP device AMD Instinct MI300X: 1,099,511,627,776 bytes of memory failed with hipErrorOutOfMemory" in told(caught.value)


def test_a_kernel_that_never_ends(fake: FakeHip, comgr: FakeComgr, kernel: Executable) -> None:
    fake.steps = 5
    times = iter(range(1000))
    device = LibraryDriver(api.opened(HIP, fake), patience=30, now=lambda: float(next(times)))
    device.load(launches(kernel)).start(0, [(device.allocate(1 << 14), 0)] * 4)
    with pytest.raises(UserError) as caught:
        device.finish()
    assert told(caught.value) == (
        "HIP device AMD Instinct MI300X: a kernel has not ended after 30 seconds; end this process to stop it"
    )


def test_a_kernel_that_touches_what_is_not_its_own(device: LibraryDriver, kernel: Executable) -> None:
    device.load(launches(kernel)).start(0, [(device.allocate(16), 0)] * 4)
    with pytest.raises(DriverError, match=r"a kernel failed with hipErrorIllegalAddress: .* has to be started anew"):
        device.finish()


def test_code_that_cannot_be_loaded(
    device: LibraryDriver, fake: FakeHip, kernel: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = launches(kernel)
    fake.machine = 0x3F
    with pytest.raises(DriverError, match="loading code failed with hipErrorNoBinaryForGpu: the code is for another architecture"):
        device.load(made)
    fake.machine, fake.ptx = 0x4C, fake.ptx.replace("ts_", "other_")
    with pytest.raises(DriverError, match=r"finding kernel ts_\w+_kernel failed with hipErrorNotFound"):
        device.load(made)
    with pytest.raises(UserError, match="HIP loads amdgpu, and this code is ptx; compile it for a HIP target, such as mi300x"):
        device.load(Launches(made.launches, (), "", "ptx"))
    monkeypatch.setattr(link, "library", lambda: None)
    monkeypatch.setattr(link, "found_linker", lambda: "true")  # which ends well, and links nothing
    with pytest.raises(UserError, match="true cannot link code for AMD's GPUs: it ended with 0"):
        device.load(made)
    monkeypatch.setattr("tensorsmith.backends.gpu.hip.interface.linked", lambda code, architecture: code)  # not linked
    with pytest.raises(DriverError, match="loading code failed with hipErrorInvalidImage: ROCm does not take the code object"):
        device.load(made)


@pytest.mark.parametrize("function", ["hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipModuleLaunchKernel", "hipStreamQuery",
                                      "hipMalloc", "hipModuleLoadDataEx", "hipModuleGetFunction"])  # fmt: skip
@pytest.mark.parametrize("code", [719, 12345, 4321])
def test_every_function_that_fails_is_noticed(
    device: LibraryDriver, fake: FakeHip, kernel: Executable, function: str, code: int
) -> None:
    fake.faults[function] = code
    with pytest.raises(DriverError) as caught:
        kernel.bind(B=B)(A)
    names = {719: "hipErrorLaunchFailure", 12345: "hipErrorOfTomorrow", 4321: "result 4321"}
    assert caught.value.code == code and names[code] in told(caught.value)


@pytest.mark.parametrize("function", ["hipRuntimeGetVersion", "hipInit", "hipGetDeviceCount", "hipSetDevice",
                                      "hipStreamCreateWithFlags", "hipDeviceGetName", "hipGetDevicePropertiesR0600"])  # fmt: skip
def test_a_device_that_cannot_be_opened(fake: FakeHip, function: str) -> None:
    fake.faults[function] = 999
    with pytest.raises(DriverError, match="failed with hipErrorUnknown"):
        assert LibraryDriver(api.opened(HIP, fake)).target


def test_nothing_that_links(device: LibraryDriver, kernel: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "library", lambda: None)
    with pytest.raises(UserError) as caught:
        kernel.bind(B=B)(A)
    assert told(caught.value) == (
        "code for AMD's GPUs has to be linked: there is no libamd_comgr.so.3 (of AMD's ROCm) and no ld.lld (of LLVM); install one"
    )


@pytest.mark.parametrize("function", sorted(link.FUNCTIONS.keys() - {"amd_comgr_release_data", "amd_comgr_destroy_data_set",
                                                                     "amd_comgr_destroy_action_info"}))  # fmt: skip
def test_a_function_of_the_linking_library_that_fails(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had made until then is given back; LLVM's linker comes next."""
    broken = FakeComgr(faults=(function,))
    monkeypatch.setattr(link, "library", lambda: broken)
    monkeypatch.setattr(link, "found_linker", lambda: None)
    with pytest.raises(
        UserError, match=f"linking code for gfx942 failed: AMD's library failed in {function}; install a newer ROCm"
    ):
        link.linked(b"\x7fELF" + bytes(60), "gfx942")
    assert not broken.alive
    monkeypatch.setattr(link, "found_linker", lambda: "ld.lld")
    monkeypatch.setattr(link, "by_linker", lambda linker, code: b"by " + linker.encode())
    assert link.linked(b"", "gfx942") == b"by ld.lld"


def test_what_the_linking_library_says(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = FakeComgr(problem="lld: error: unknown relocation\nmore")
    monkeypatch.setattr(link, "library", lambda: broken)
    monkeypatch.setattr(link, "found_linker", lambda: None)
    with pytest.raises(UserError, match=r"amd_comgr_do_action \(lld: error: unknown relocation\); install"):
        link.linked(b"\x7fELF" + bytes(60), "gfx942")


def test_how_the_linking_library_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    every = SimpleNamespace(**{name: SimpleNamespace() for name in link.FUNCTIONS})
    old = SimpleNamespace(amd_comgr_create_data=SimpleNamespace())
    found = iter([OSError("none"), old, every])

    def opened(name: str) -> SimpleNamespace:
        one = next(found)
        if isinstance(one, OSError):
            raise one
        return one

    monkeypatch.setattr(ctypes, "CDLL", opened)
    link.library.cache_clear()
    try:
        assert link.library() is every and every.amd_comgr_do_action.argtypes == link.FUNCTIONS["amd_comgr_do_action"]
    finally:
        link.library.cache_clear()


def test_what_is_meant_is_named() -> None:
    assert MEANINGS.keys() <= NAMES.keys()
