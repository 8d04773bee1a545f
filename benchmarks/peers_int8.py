"""Peers with quantisers of their own: from the network in f32, each by the tools of its makers and in the forms that they offer.

onnxruntime own qoperator    its static quantisation, with fused integer operators instead of QDQ
onnxruntime own dynamic      its dynamic quantisation: ranges of activations are found while it runs
openvino own nncf            NNCF's post-training quantisation for OpenVINO (`pip install nncf`)

All are calibrated on the same random inputs as the file that everybody runs. Their answers are others than its: what counts is how
far each is from the network in f32 (`error_to_f32`). Whoever is much farther from it than the common file is noted and not timed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import models
import quantise
from frameworks import Unavailable, failure, onnxruntime_session, openvino_model, require
from models import Network
from peers_networks import NetworkPeer, _peer, fixed_shapes
from ways import Array, Way, onnxruntime_ways, openvino_ways

WORSE = 1.5  # times the error of the common file: what quantises so much more coarsely computes something else


def own(network: Network, framework: str, threads: int) -> Iterator[NetworkPeer]:
    """The forms that a framework's own tools make of a network in f32. Raises `Unavailable` with the reason if there is none."""
    require(framework)
    makers = {"onnxruntime": {"qoperator": _qoperator, "dynamic": _dynamic}, "openvino": {"nncf": _nncf}}[framework]
    for name, make in makers.items():
        try:
            ways = list(make(network, threads))
        except Unavailable:
            raise
        except Exception as problem:
            raise failure(problem) from problem
        for way in ways:
            yield _peer(f"{framework} own {name}", way)


def _stored(network: Network, kind: str, make: Callable[[Path], None]) -> bytes:
    path = models.CACHE / f"{network.path.stem}-int8-{kind}.onnx"
    if not path.exists():
        make(path)
    return path.read_bytes()


def _qoperator(network: Network, threads: int) -> Iterator[Way]:
    content = _stored(network, "qoperator", lambda path: quantise.static(network, path, "QOperator"))
    return onnxruntime_ways(onnxruntime_session(content, threads), network.inputs)


def _dynamic(network: Network, threads: int) -> Iterator[Way]:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def make(path: Path) -> None:
        quantize_dynamic(str(network.path), str(path), weight_type=QuantType.QInt8, per_channel=True)

    return onnxruntime_ways(onnxruntime_session(_stored(network, "dynamic", make), threads), network.inputs)


def _nncf(network: Network, threads: int) -> Iterator[Way]:
    if importlib.util.find_spec("nncf") is None:
        raise Unavailable("nncf is not installed, so OpenVINO has no quantiser of its own here")
    import nncf

    logging.getLogger("nncf").setLevel(logging.ERROR)
    some = [quantise._like(network.inputs, seed) for seed in range(quantise._CALIBRATION)]

    def change(model: Any) -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return nncf.quantize(model, nncf.Dataset(some), subset_size=len(some))

    compiled = openvino_model(fixed_shapes(network), threads, change)
    return openvino_ways(compiled, [network.inputs[value.get_any_name()] for value in compiled.inputs])


def error(got: Sequence[Array], real: Sequence[Array]) -> float:
    """The root mean square of what an answer is off from that in f32, relative to it; the worst of the outputs."""
    return max(float(np.sqrt(np.mean((g - r) ** 2) / (np.mean(r**2) or 1.0))) for g, r in zip(map(_wide, got), map(_wide, real)))


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


def answers_in_f32(network: Network, threads: int) -> list[Array]:
    """ONNX Runtime's, of the network before it was quantised."""
    way = next(iter(onnxruntime_ways(onnxruntime_session(fixed_shapes(network), threads), network.inputs)))
    return [array.copy() for array in way.outputs()]


def accepted(
    peers: Sequence[NetworkPeer], ours: Sequence[Array], real: Sequence[Array]
) -> tuple[list[NetworkPeer], dict[str, float], dict[str, str]]:
    """Those that are about as near to f32 as the common file is; how far everyone is; and why the others take no part."""
    errors = {"tensorsmith": error(ours, real)} | {peer.name: error(peer.outputs(), real) for peer in peers}
    most = WORSE * errors["tensorsmith"]
    notes = {
        p.name: f"it is off by {errors[p.name]:.1%} of the answer in f32, the common file by {errors['tensorsmith']:.1%}"
        for p in peers
        if not errors[p.name] <= most
    }
    return [p for p in peers if p.name not in notes], errors, notes
