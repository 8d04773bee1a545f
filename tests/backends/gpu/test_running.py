"""Networks in a device's memory: what is copied, and where."""

from __future__ import annotations

import json

import numpy as np
from tests.backends.gpu.drawn import OPENCL, candidates

import tensorsmith as ts
from tensorsmith.backends.gpu import opencl
from tensorsmith.backends.gpu.running import DeviceNetwork
from tensorsmith.graph.builder import Builder
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.measure.bench import Bench, array_bytes, number_of_sets
from tensorsmith.measure.timing import Plan


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


def test_runs_that_find_nothing_in_the_caches(monkeypatch) -> None:
    """What lies between them is written in the device's memory, as much as its caches hold twice, less what the arrays have."""
    a, b = ts.placeholder((9, 9), name="A"), ts.placeholder((9,), name="B")
    workload = ts.workload([a, b, ts.compute((9, 9), lambda i, j: a[i, j] + b[j], name="C")])
    bench = Bench(workload, OPENCL, seed=0, threads=1, reference=evaluate(workload, random_inputs(workload, 0)), cache="cold")
    (candidate,) = candidates(workload, 1, 0)
    bench.build(0, json.dumps(candidate.sketch.to_json()), candidate.decisions)
    filled: list[int] = []
    fill = opencl.OpenCL.fill
    monkeypatch.setattr(opencl.OpenCL, "fill", lambda self, to, size, value: (filled.append(size), fill(self, to, size, value)))
    rounds, wrong = bench.time(0, Plan(2, 1e-6, 1e-3, 1.0))
    sets = number_of_sets(array_bytes(workload), 2 * OPENCL.l2_bytes)
    assert wrong is None and rounds.times
    assert filled and set(filled) == {2 * OPENCL.l2_bytes - sets * array_bytes(workload)}
