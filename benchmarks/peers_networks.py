"""The other systems on whole networks, each set up as its makers advise for latency.

All get the same input arrays, and memory for the results where they accept it. Shapes are made fixed in the ONNX file before, so
that nobody has to prepare for others.
"""

from __future__ import annotations

import environment  # noqa: F401  before torch

import contextlib  # isort: skip
import importlib.util
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from models import Network

Array = np.ndarray[Any, Any]

#: The peers by name, and the module that each needs.
FRAMEWORKS = {"torch": "torch", "inductor": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}
REFERENCE = "onnxruntime"
#: Settings of `torch.compile`, for all that it does: given as its `options` they would come too late to freeze anything.
INDUCTOR = {"freezing": True, "max_autotune": True, "cpp_wrapper": True, "compile_threads": 1}  # 1: no processes that would stay


@dataclass(frozen=True)
class NetworkPeer:
    """`run` is timed, with Python's call included. `outputs` runs it and gives copies of the results in the file's order."""

    name: str
    run: Callable[[], object]
    outputs: Callable[[], list[Array]]


class Unavailable(Exception):
    """Why a peer takes no part."""


def forms(framework: str, network: Network, threads: int) -> list[NetworkPeer]:
    """The network in a framework, in every form that may be its fastest. Use them inside `torch.inference_mode()`.

    Raises `Unavailable` where the framework is not installed, has no such network, or fails on it: it is not ours to repair.
    """
    if importlib.util.find_spec(FRAMEWORKS[framework]) is None:
        raise Unavailable(f"{FRAMEWORKS[framework]} is not installed")
    if framework in ("torch", "inductor") and network.module is None:
        raise Unavailable("this network comes as an ONNX file, there is no PyTorch module of it")
    make = {"torch": _torch, "inductor": _inductor, "onnxruntime": _onnxruntime, "openvino": _openvino}[framework]
    try:
        return list(make(network, threads))
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [""]
        raise Unavailable(f"{type(problem).__name__}: {lines[0]}") from problem


def fixed_shapes(network: Network) -> bytes:
    """The network's ONNX file with the shapes of its inputs filled in."""
    model = onnx.load(str(network.path))
    for value in model.graph.input:
        if value.name in network.inputs:
            dimensions = value.type.tensor_type.shape.dim
            for dimension, size in zip(dimensions, network.inputs[value.name].shape, strict=True):
                dimension.dim_value = size
    return model.SerializeToString()


# -- ONNX Runtime and OpenVINO -------------------------------------------------------------------------------------------


def session(model: bytes | str, threads: int) -> Any:
    """An ONNX Runtime session with all optimisations; its threads spin between operators, as they do by default."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _onnxruntime(network: Network, threads: int) -> Iterator[NetworkPeer]:
    """Inputs and results are bound beforehand, so a call copies nothing."""
    import onnxruntime

    made = session(fixed_shapes(network), threads)
    names = [value.name for value in made.get_outputs()]
    value_of = onnxruntime.OrtValue.ortvalue_from_numpy
    inputs = {name: value_of(array) for name, array in network.inputs.items()}
    results = {name: value_of(array) for name, array in zip(names, made.run(names, network.inputs))}
    binding = made.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in results.items():
        binding.bind_ortvalue_output(name, value)

    def run() -> object:
        return made.run_with_iobinding(binding)

    def outputs() -> list[Array]:
        run()
        return [results[name].numpy().copy() for name in names]

    yield NetworkPeer("onnxruntime", run, outputs)


def _openvino(network: Network, threads: int) -> Iterator[NetworkPeer]:
    """For latency, in f32: on some machines it would choose bf16 by itself."""
    import openvino

    core = openvino.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }  # fmt: skip
    compiled = core.compile_model(core.read_model(fixed_shapes(network)), "CPU", settings)
    request = compiled.create_infer_request()
    tensors = {name: openvino.Tensor(array, shared_memory=True) for name, array in network.inputs.items()}
    for name, tensor in tensors.items():
        request.set_tensor(name, tensor)

    def run() -> object:
        request.start_async()  # less Python than `infer`, which looks through its arguments
        request.wait()
        return tensors

    def outputs() -> list[Array]:
        run()
        return [request.get_output_tensor(n).data.copy() for n in range(len(compiled.outputs))]

    yield NetworkPeer("openvino", run, outputs)


# -- PyTorch -------------------------------------------------------------------------------------------------------------


def _torch(network: Network, threads: int) -> Iterator[NetworkPeer]:
    """Eager; a network of convolutions with its channels last, too."""
    import torch

    torch.set_num_threads(threads)
    module = _module(network)
    tensors = [torch.from_numpy(array) for array in network.inputs.values()]
    last = _channels_last(module)
    yield _eager("torch", module, tensors)
    if last is not None:
        rank, layout = last
        other = _module(network).to(memory_format=layout)
        images = [t.contiguous(memory_format=layout) if t.ndim == rank else t for t in tensors]
        yield _eager("torch last", other, images)


def _inductor(network: Network, threads: int) -> Iterator[NetworkPeer]:
    """`torch.compile` set up for inference: frozen weights, so that it folds batch norms, packs weights and has convolutions work
    with channels last whatever the input; static shapes; matrix products tried in its own form and in MKL's; C++ instead of Python
    from kernel to kernel. It compiles here, not when it is timed: that takes a minute or so, and a C++ compiler."""
    import torch
    import torch._inductor.config as config

    torch.set_num_threads(threads)
    torch._dynamo.reset()
    tensors = [torch.from_numpy(array) for array in network.inputs.values()]
    with config.patch(INDUCTOR), contextlib.redirect_stderr(io.StringIO()):  # it tells what it tried
        peer = _eager("inductor", torch.compile(_module(network), dynamic=False), tensors)
        for _ in range(2):  # the second call may compile once more
            peer.run()
    yield peer


def _module(network: Network) -> Any:
    """Built outside of the inference mode, in which parameters could not be changed any more."""
    import torch

    assert network.module is not None
    with torch.inference_mode(False):
        return network.module().requires_grad_(False)


def _channels_last(module: Any) -> tuple[int, Any] | None:
    """Rank and memory format of the images of a network of convolutions."""
    from torch import channels_last, channels_last_3d, nn

    layers = list(module.modules())
    if any(isinstance(layer, nn.Conv3d | nn.ConvTranspose3d) for layer in layers):
        return 5, channels_last_3d
    if any(isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) for layer in layers):
        return 4, channels_last
    return None


def _eager(name: str, module: Callable[..., Any], tensors: Sequence[Any]) -> NetworkPeer:
    def outputs() -> list[Array]:
        return [np.array(tensor.numpy(), order="C") for tensor in _flat(module(*tensors))]

    return NetworkPeer(name, lambda: module(*tensors), outputs)


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, Mapping):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        for part in result:
            yield from _flat(part)
    else:
        yield result
