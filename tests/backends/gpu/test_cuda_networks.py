"""What is compiled for CUDA runs: on a driver of ours, whose kernels the PTX interpreter runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.backends.gpu.fake_cuda import FakeCuda

import tensorsmith as ts
from tensorsmith.backends.gpu.cuda import driver as cuda
from tensorsmith.backends.gpu.cuda.interface import CUDA
from tensorsmith.backends.gpu.library import api, arrays
from tensorsmith.backends.gpu.library.device import LibraryDriver
from tensorsmith.errors import UserError


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> LibraryDriver:
    found = LibraryDriver(api.opened(CUDA, FakeCuda()))
    monkeypatch.setattr(cuda, "driver", lambda number=0: found)
    return found


def layer() -> list[object]:
    """A product and what comes behind it, in two kernels at least where these are not fused."""
    a, b = ts.placeholder((24, 32), name="A"), ts.placeholder((32, 40), name="B", constant=True)
    k = ts.reduce_axis(32, name="k")
    c = ts.compute((24, 40), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, ts.compute((24, 40), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")]


A = np.random.default_rng(0).standard_normal((24, 32)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((32, 40)).astype(np.float32)
WANTED = np.maximum(A @ B, 0)


def test_a_workload(device: LibraryDriver, tmp_path: Path) -> None:
    kernel = ts.compile(layer(), target="a100").bind(B=B)
    np.testing.assert_allclose(kernel(A), WANTED, rtol=1e-4, atol=1e-4)
    assert ".target sm_80" in kernel.source("ptx")
    kernel.save(tmp_path / "kernel.tsm")
    loaded = ts.load_executable(tmp_path / "kernel.tsm")
    np.testing.assert_allclose(loaded(A), WANTED, rtol=1e-4, atol=1e-4)


def test_times_are_the_devices(device: LibraryDriver) -> None:
    kernel = ts.compile(layer(), target="a100").bind(B=B)
    fake = device.api.library
    prepared = kernel.prepare(A)
    before = fake.clock
    seconds = prepared.seconds(3)
    assert seconds == pytest.approx((fake.clock - before) / 3, rel=1e-3)
    prepared.poison()
    prepared.repeat(1)
    np.testing.assert_allclose(prepared.outputs[0], WANTED, rtol=1e-4, atol=1e-4)
    assert prepared.stepwise()().sum() == pytest.approx(seconds, rel=1e-3)


def test_arrays_in_device_memory(device: LibraryDriver) -> None:
    kernel = ts.compile(layer(), target="a100").bind(B=B)
    x = arrays.on_device(A, device)
    y = kernel(x)
    assert isinstance(y, arrays.DeviceArray) and y.shape == (24, 40)
    np.testing.assert_allclose(y.numpy(), WANTED, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(kernel(x).numpy(), WANTED, rtol=1e-4, atol=1e-4)  # and again
    both = ts.compile(layer(), target="a100")
    np.testing.assert_allclose(both(x, B).numpy(), WANTED, rtol=1e-4, atol=1e-4)  # the other is copied


@pytest.mark.parametrize("wrong", [A[:, :16].copy(), A.astype(np.float64)], ids=["shape", "type"])
def test_wrong_arrays_in_device_memory(device: LibraryDriver, wrong: np.ndarray) -> None:
    kernel = ts.compile(layer(), target="a100").bind(B=B)
    with pytest.raises(UserError, match=r"A must be f32\[24, 32\], float.* given"):
        kernel(arrays.on_device(wrong, device))


def test_code_for_a_newer_device_says_so(device: LibraryDriver) -> None:
    kernel = ts.compile(layer(), target="h100").bind(B=B)
    with pytest.raises(UserError, match=r"was compiled for h100 .sm_90., nvidia-a100-sxm4-40gb is sm_80"):
        kernel(A)


def test_without_a_driver_everything_but_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(number: int = 0) -> LibraryDriver:
        raise UserError("no CUDA here: there is no libcuda.so.1; install NVIDIA's driver")

    monkeypatch.setattr(cuda, "driver", missing)
    kernel = ts.compile(layer(), target="a100").bind(B=B)
    assert "visible .entry" in kernel.source("ptx")
    with pytest.raises(UserError, match="was compiled for a100, and no CUDA here: there is no libcuda"):
        kernel(A)
