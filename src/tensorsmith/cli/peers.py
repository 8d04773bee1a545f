"""Other systems that run an ONNX file: each in the form that is its fastest here, with as many threads as ours has.

Arguments are in place before the clock starts, as far as the system allows, and Python's call is timed with it, as with ours.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array

_SPIN_LOOKS = "10000"  # of OpenMP's waiting threads, about 0.1 ms: longer than any gap inside a model, over before others run


@dataclass(frozen=True)
class Peer:
    """`run` is what is timed; `outputs` are its results, in the order of the file."""

    name: str
    run: Callable[[], object]
    outputs: list[Array]


class Missing(Exception):
    """A peer that takes no part, and why."""


def make(name: str, path: str, inputs: Mapping[str, Array], threads: int) -> Peer:
    """The model of a file in another system. Raises `Missing` where that is not installed, or cannot run the model."""
    build = _SYSTEMS[name]
    try:
        return build(name, path, _as_declared(path, inputs), threads)
    except ImportError as problem:
        packages = " ".join(_PACKAGES.get(name, (name,)))
        raise Missing(f"{name} is left out: {problem.name or problem} is not installed (pip install {packages})") from problem
    except Exception as problem:  # each system has its own
        first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise Missing(f"{name} is left out: it cannot run {path}: {first}") from problem


def parse(text: str) -> list[str]:
    """Names separated by commas."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in _SYSTEMS]
    if unknown:
        raise UserError(f"--vs {text}: {unknown[0]!r} is not known; there are {', '.join(_SYSTEMS)}")
    return names


def _as_declared(path: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs in the types of the file, some of which we hold in wider ones."""
    onnx = importlib.import_module("onnx")
    graph = onnx.load(path, load_external_data=False).graph
    kinds = {v.name: onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in graph.input}
    return {name: np.ascontiguousarray(array.astype(kinds[name], copy=False)) for name, array in inputs.items()}


def _onnxruntime(name: str, path: str, inputs: Mapping[str, Array], threads: int) -> Peer:
    """Inputs and results are bound beforehand, so a call copies nothing."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = [np.array(y) for y in session.run(None, dict(inputs))]
    binding = session.io_binding()
    values = {key: ort.OrtValue.ortvalue_from_numpy(array) for key, array in inputs.items()}
    results = [ort.OrtValue.ortvalue_from_numpy(array) for array in outputs]
    for key, value in values.items():
        binding.bind_ortvalue_input(key, value)
    for output, value in zip(session.get_outputs(), results):
        binding.bind_ortvalue_output(output.name, value)
    return Peer(f"{name} {ort.__version__}", lambda: (session.run_with_iobinding(binding), values), outputs)


def _openvino(name: str, path: str, inputs: Mapping[str, Array], threads: int) -> Peer:
    os.environ.setdefault("OPENVINO_TELEMETRY_DISABLED", "1")
    ov = importlib.import_module("openvino")
    core = ov.Core()
    model = core.read_model(path)
    model.reshape({key: list(array.shape) for key, array in inputs.items()})
    settings = {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }  # fmt: skip
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    for key, array in inputs.items():
        request.set_tensor(key, ov.Tensor(array, shared_memory=True))

    def run() -> object:
        request.start_async()  # less Python than `infer`, which looks through its arguments
        request.wait()
        return inputs

    run()
    outputs = [np.array(request.get_output_tensor(n).data) for n in range(len(model.outputs))]
    return Peer(f"{name} {ov.__version__.split('-')[0]}", run, outputs)


def _torch(name: str, path: str, inputs: Mapping[str, Array], threads: int) -> Peer:
    """PyTorch reads no ONNX files; onnx2torch makes a module of one."""
    os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_LOOKS)
    torch = importlib.import_module("torch")
    module = importlib.import_module("onnx2torch").convert(path).eval()
    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(array) for array in inputs.values()]

    def run() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    results = run()
    listed: Sequence[Any] = results if isinstance(results, (tuple, list)) else [results]
    return Peer(f"{name} {torch.__version__.split('+')[0]}", run, [np.array(y.numpy()) for y in listed])


_SYSTEMS: dict[str, Callable[[str, str, Mapping[str, Array], int], Peer]] = {
    "onnxruntime": _onnxruntime,
    "torch": _torch,
    "openvino": _openvino,
}
_PACKAGES = {"torch": ("torch", "onnx2torch")}
