"""What a kernel costs beyond its work: a chain of tiny matrix products, each with a weight of its own.

The work of one is the time of the same kernel alone, called from a compiled loop. What a step of the network takes longer is
going through the table of steps, weights from elsewhere each time, and waiting for the result of the step before. ONNX Runtime on
the same chain is for comparison.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tensorsmith as ts
from contest import Settings
from frameworks import Unavailable
from models import Network
from ours_networks import contestant
from peers_networks import forms
from rows import ALONE, OURS, Row
from tensorsmith.errors import InternalError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.referee import Contestant, Repeated, compare
from tensorsmith.runtime.pool import with_threads
from ways import Array

KERNELS = 100
SIZE = 16
KERNEL = "one kernel alone"


def chain(kernels: int = KERNELS, size: int = SIZE) -> onnx.ModelProto:
    """x @ w0 @ w1 @ ...; the weights are orthogonal, so that values neither vanish nor explode."""
    generator = np.random.default_rng(0)
    weights = [np.linalg.qr(generator.standard_normal((size, size)))[0].astype(np.float32) for _ in range(kernels)]
    names = ["x", *(f"v{n}" for n in range(1, kernels)), "y"]
    nodes = [helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]]) for n in range(kernels)]
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, size))] for name in ("x", "y"))
    constants = [numpy_helper.from_array(weight, f"w{n}") for n, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def overhead(settings: Settings, kernels: int = KERNELS) -> Row:
    """The row of the report, in seconds."""
    model = ts.load(chain(kernels))
    executable = ts.compile(model)
    steps = len(executable.network.steps)
    if steps != kernels or len(model.tasks()) != 1:
        raise InternalError(f"the chain of {kernels} products became {steps} steps of {len(model.tasks())} tasks")
    x = np.random.default_rng(1).standard_normal((1, SIZE)).astype(np.float32)
    with with_threads(settings.threads):
        contestants: dict[str, Contestant] = {
            OURS: contestant(OURS, executable, {"x": x}).run,
            ALONE: Repeated(executable.prepare(x, threads=settings.threads).repeat),
            KERNEL: _kernel(model.tasks()[0].workload, settings.threads),
        }
        ours = tuple(contestants)
        if "onnxruntime" in settings.frameworks:
            contestants |= _onnxruntime(kernels, x, settings.threads)
        result = compare(contestants, ours=ours, seed=f"{settings.seed} overhead", seconds=settings.seconds)
    best = {name: timing.best for name, timing in result.timings.items()}
    return {
        "kernels": kernels,
        "work_per_kernel": best[KERNEL],
        "overhead_per_kernel": best[ALONE] / kernels - best[KERNEL],
        "python_call": best[OURS] - best[ALONE],
        "seconds": {name: seconds for name, seconds in best.items() if name != KERNEL},
        "disturbed": result.disturbed,
        "retaken": result.retaken,
    }


def _kernel(workload: Workload, threads: int) -> Repeated:
    given = random_inputs(workload)
    kernel = ts.compile(workload)
    bound = kernel.bind(**{name: given[name] for name in kernel.constants})
    return Repeated(bound.prepare(*(given[argument.name] for argument in bound.inputs), threads=threads).repeat)


def _onnxruntime(kernels: int, x: Array, threads: int) -> dict[str, Contestant]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chain.onnx")
        onnx.save(chain(kernels), path)
        try:
            return {peer.name: peer.run for peer in forms("onnxruntime", Network("chain", path, {"x": x}), threads)}
        except Unavailable:
            return {}
