"""What a call from Python costs: the sum of two rows of eight numbers, where hardly anything is computed.

Ours as a kernel, with memory for the result and without, and as a network; NumPy, PyTorch and ONNX Runtime, where installed, each
in the ways that its users call it. All are timed side by side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import tensorsmith as ts
from contest import Settings, WrongAnswer
from rows import Row
from tensorsmith.measure.referee import Timing, compare
from tensorsmith.runtime.pool import with_threads

SIZE = 8
Call = Callable[[], Any]


def call_overhead(settings: Settings) -> dict[str, Row]:
    """A row for each way of calling."""
    a, b = (np.random.default_rng(n).standard_normal(SIZE).astype(np.float32) for n in range(2))
    ours = _ours(a, b)
    calls = {**ours, **_numpy(a, b)}
    for peer in (_torch, lambda a, b: _onnxruntime(a, b, settings.threads)):
        with contextlib.suppress(ImportError):
            calls |= peer(a, b)
    with with_threads(settings.threads):
        for name, call in calls.items():
            result = call()
            if not np.array_equal(np.ravel(result.numpy() if hasattr(result, "numpy") else result), a + b):
                raise WrongAnswer(f"{name} does not add")
        timings = compare(calls, ours=ours, seed=settings.seed, seconds=settings.seconds).timings
    return {f"call: {name}": _row(timing) for name, timing in timings.items()}


def _row(timing: Timing) -> Row:
    return {"total": timing.best, "median": timing.median, "in µs": f"{timing.best * 1e6:.2f}"}


def _ours(a: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    rows = [ts.placeholder((SIZE,), name=name) for name in "AB"]
    kernel = ts.compile([*rows, ts.compute((SIZE,), lambda i: rows[0][i] + rows[1][i], name="C")])
    network = ts.compile(ts.load(_model()))
    out = np.empty_like(a)
    return {
        "kernel, out given": lambda: kernel(a, b, out=out),
        "kernel": lambda: kernel(a, b),
        "network, out given": lambda: network(a, b, out=out),
        "network": lambda: network(a, b),
        "network, inputs by name": lambda: network(a=a, b=b),
    }


def _numpy(a: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    out = np.empty_like(a)
    return {"numpy.add, out given": lambda: np.add(a, b, out=out), "numpy.add": lambda: np.add(a, b)}


def _torch(a: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    import torch

    x, y = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty_like(x)
    return {"torch.add, out given": lambda: torch.add(x, y, out=out), "torch.add": lambda: torch.add(x, y)}


def _onnxruntime(a: np.ndarray, b: np.ndarray, threads: int) -> dict[str, Call]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(_model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in (("a", a), ("b", b)):
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    result = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(a))
    binding.bind_ortvalue_output("c", result)

    def run_bound() -> Any:
        session.run_with_iobinding(binding)
        return result

    return {"onnxruntime run": lambda: session.run(None, {"a": a, "b": b}), "onnxruntime io binding": run_bound}


def _model() -> onnx.ModelProto:
    a, b, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (SIZE,)) for name in "abc")
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "add", [a, b], [c])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
