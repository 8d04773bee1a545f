"""The other systems on whole networks, each set up as its makers advise for latency.

All get the same input arrays, and memory for the results where they accept it. Shapes are made fixed in the ONNX file before, so
that nobody has to prepare for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from frameworks import INDUCTOR_WAYS, OUTSIDE, Unavailable, failure, onnxruntime_session, openvino_model, require, torch_compiled
from models import Network
from ways import Array, Way, onnxruntime_ways, openvino_ways

REFERENCE = "onnxruntime"


@dataclass(frozen=True)
class NetworkPeer:
    """`run` is timed, with Python's call included. `outputs` runs it and gives copies of the results in the file's order."""

    name: str
    run: Callable[[], object]
    outputs: Callable[[], list[Array]]


def forms(framework: str, network: Network, threads: int) -> list[NetworkPeer]:
    """The network in a framework, in every form that may be its fastest. Use them inside `torch.inference_mode()`.

    Raises `Unavailable` where the framework is not installed, has no such network, or fails on it: it is not ours to repair.
    """
    if framework in OUTSIDE:
        raise Unavailable("it takes part in operators only")
    require(framework)
    if framework in ("torch", "torch.compile") and network.module is None:
        raise Unavailable("this network comes as an ONNX file, there is no PyTorch module of it")
    make = {"torch": _torch, "torch.compile": _torch_compile, "onnxruntime": _onnxruntime, "openvino": _openvino}[framework]
    try:
        return list(make(network, threads))
    except Exception as problem:
        raise failure(problem) from problem


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


def _onnxruntime(network: Network, threads: int) -> Iterator[NetworkPeer]:
    for way in onnxruntime_ways(onnxruntime_session(fixed_shapes(network), threads), network.inputs):
        yield _peer("onnxruntime", way)


def _openvino(network: Network, threads: int) -> Iterator[NetworkPeer]:
    compiled = openvino_model(fixed_shapes(network), threads)
    arrays = [network.inputs[value.get_any_name()] for value in compiled.inputs]
    for way in openvino_ways(compiled, arrays):
        yield _peer("openvino", way)


def _peer(framework: str, way: Way) -> NetworkPeer:
    return NetworkPeer(f"{framework} {way.name}", way.run, lambda: [array.copy() for array in way.outputs()])


# -- PyTorch -------------------------------------------------------------------------------------------------------------


def _torch(network: Network, threads: int) -> Iterator[NetworkPeer]:
    """Eager; a network of convolutions with its channels last, too."""
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(array) for array in network.inputs.values()]
    for layout, module, given in _layouts(network, tensors):
        yield _eager(" ".join(filter(None, ("torch", layout))), module, given)


def _torch_compile(network: Network, threads: int) -> Iterator[NetworkPeer]:
    """In all its ways; a network of convolutions, as it comes, with its channels last, too: frozen it arranges them itself. A way
    that fails takes no part; if all do, so does `torch.compile`."""
    import torch

    torch.set_num_threads(threads)
    torch._dynamo.reset()
    tensors = [torch.from_numpy(array) for array in network.inputs.values()]
    made, problems = 0, []
    for way in INDUCTOR_WAYS:
        for layout, module, given in _layouts(network, tensors) if way == "stock" else [("", _module(network), tensors)]:
            try:
                run = torch_compiled(module, given, way)
            except Exception as problem:
                problems.append(problem)
                continue
            made += 1
            yield NetworkPeer(" ".join(filter(None, ("torch.compile", way, layout))), run, lambda run=run: _arrays(run()))
    if not made:
        raise problems[0]


def _layouts(network: Network, tensors: Sequence[Any]) -> Iterator[tuple[str, Any, Sequence[Any]]]:
    """The network as it is; one of convolutions with its channels last, too."""
    module = _module(network)
    yield "", module, tensors
    last = last_format(module)
    if last is not None:
        rank, layout = last
        images = [t.contiguous(memory_format=layout) if t.ndim == rank else t for t in tensors]
        yield "last", _module(network).to(memory_format=layout), images


def _module(network: Network) -> Any:
    """Built outside of the inference mode, in which parameters could not be changed any more."""
    import torch

    assert network.module is not None
    with torch.inference_mode(False):
        return network.module().requires_grad_(False)


def last_format(module: Any) -> tuple[int, Any] | None:
    """Rank and memory format of the images of a network of convolutions."""
    from torch import channels_last, channels_last_3d, nn

    layers = list(module.modules())
    if any(isinstance(layer, nn.Conv3d | nn.ConvTranspose3d) for layer in layers):
        return 5, channels_last_3d
    if any(isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) for layer in layers):
        return 4, channels_last
    return None


def _eager(name: str, module: Callable[..., Any], tensors: Sequence[Any]) -> NetworkPeer:
    return NetworkPeer(name, lambda: module(*tensors), lambda: _arrays(module(*tensors)))


def _arrays(result: Any) -> list[Array]:
    return [np.array(tensor.numpy(), order="C") for tensor in _flat(result)]


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, Mapping):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        for part in result:
            yield from _flat(part)
    else:
        yield result
