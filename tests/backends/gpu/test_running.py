"""Networks in a device's memory: what is copied, and where."""

from __future__ import annotations

import numpy as np
from tests.backends.gpu.drawn import OPENCL

import tensorsmith as ts
from tensorsmith.backends.gpu import opencl
from tensorsmith.backends.gpu.running import DeviceNetwork
from tensorsmith.graph.builder import Builder


def test_pieces_that_begin_anywhere_are_set_aside(monkeypatch) -> None:
    """Where loads of several elements want more than that of an element, as CUDA's do."""
    random = np.random.default_rng(0)
    given, weight = (random.uniform(-1, 1, (9, 9)).astype(np.float32) for _ in range(2))
    b = Builder("net")
    value = b.input("x", (9, 9), "f32")
    for n in range(4):  # values that live one after the other take turns in the arena
        value = b.add("matmul", [value, b.constant(weight, f"w{n}")])
    b.output("y", value)
    network = ts.compile(ts.Model.from_graph(b.graph()), target=OPENCL).network
    strict = opencl.OpenCL(opencl.opencl_device())
    monkeypatch.setattr(strict, "is_aligned", lambda at: at[1] == 0)  # the beginning of the arena alone
    started: list[int] = []
    running = DeviceNetwork(network, strict)
    for module in running.modules:
        before = module.start
        monkeypatch.setattr(
            module, "start", lambda n, places, before=before: (started.extend(at for _, at in places), before(n, places))
        )
    result = np.empty((9, 9), np.float32)
    running.run([given], [result])
    assert started and not any(started)
    np.testing.assert_allclose(result, given @ weight @ weight @ weight @ weight, rtol=1e-4, atol=1e-5)
    assert running._frame is not None and running._frame.aside
