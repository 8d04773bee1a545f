"""Whole networks of reduced size on OpenCL: what the CPU gives, within rounding; and every kernel of them for sm_80.

They are PyTorch's; `make test-gpu` runs them too."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
import torch
from tests.frontends.torch_networks import network

import tensorsmith as ts
from tensorsmith.backends.gpu.launch import Launches

pytestmark = pytest.mark.peers

NAMES = ("resnet50", "mobilenet_v2", "bert", "dcgan")


def model(name: str) -> tuple[ts.Model, dict[str, np.ndarray]]:
    """A network of random weights, and its inputs by name."""
    torch.manual_seed(0)
    module, example = network(name)
    found = ts.from_torch(module, example)
    given = example.values() if isinstance(example, dict) else [example]
    return found, {a.name: np.asarray(x) for a, x in zip(found.inputs, given, strict=True)}


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_what_the_cpu_makes_it(name: str) -> None:
    found, given = model(name)
    want, got = ts.compile(found).run(given), ts.compile(found, target="opencl").run(given)
    assert want.keys() == got.keys() and want
    for output in want:
        there, here = np.asarray(want[output]), np.asarray(got[output])
        np.testing.assert_allclose(here, there, rtol=2e-3, atol=2e-3 * float(np.abs(there).max()))


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_is_accepted_for_sm_80(name: str, tmp_path) -> None:
    found, _ = model(name)
    for n, kernel in enumerate(ts.compile(found, target="a100").network.kernels):
        made = Launches.from_bytes(kernel.code.data)
        (tmp_path / f"{n}.ptx").write_text(made.text)
        command = ["ptxas", "-v", "-arch=sm_80", str(tmp_path / f"{n}.ptx"), "-o", str(tmp_path / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        # one number, which ptxas puts aside in a kernel of 32 registers, of 255 that it could have
        assert not [x for x in re.findall(r"(\d+) bytes spill stores", done.stderr) if int(x) > 4], done.stderr
