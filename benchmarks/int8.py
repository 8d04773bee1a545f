"""Quantised layers and networks side by side with our own f32, with ONNX Runtime's and OpenVINO's int8.

    python benchmarks/int8.py [--only layers|networks] [--cases matmul-512,resnet50,...] [--target NAME] [--largest N]
                              [--threads N] [--timing S] [--json FILE]

Layers take bytes and give bytes: a matrix product, or a convolution of ResNet-50, with a bias and a relu. Beside them runs the same
layer in f32 by our own default schedule ("tensorsmith f32"), and "direct" without Winograd's transforms where that uses them.
Networks are quantised by ONNX Runtime's tool (`quantise`), and besides by the peers' own tools (`peers_int8`). Ours are default
schedules; nothing is searched.

Before anything is timed, our outputs are compared with the exact ones: integer sums, scaled and rounded as `docs/quantised.md`
says; and with those of the peers, in steps of the output's scale. A layer has to give the exact ones. A network computes some of
its operators in f32 (softmax, layer norms), whose last digit now and then decides between two steps of what is quantised next, and
then of all that follows: of everybody it is said how many outputs are within a step of the exact ones. A network
has to be as near to them as the nearest peer, and within a step in all of its outputs where there is no peer.

With `--target` ours, int8 and f32, are code for another machine that this one can run (AVX2 on one that has VNNI), and there are no
peers. Weights of layers go up to `--largest`: with more than 63 the kernels of others may saturate.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import peers_int8
import quantise
import tensorsmith as ts
from contest import Settings, hold, quiet_machine
from frameworks import Unavailable, failure, onnxruntime_session, openvino_model, require
from models import Network
from network_contest import MIN_ROUNDS, SLOT_SECONDS
from ours_networks import contestant
from peers_networks import NetworkPeer, _peer
from quantise import LAYERS, NETWORKS, Array, Layer
from report import Report
from rows import OURS, Row, row
from tables import number
from tensorsmith.graph.model import Model
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets.target import Target, native
from ways import onnxruntime_ways, openvino_ways

F32, DIRECT = f"{OURS} f32", f"{OURS} f32 direct"
PEERS = ("onnxruntime", "openvino")


def main(words: list[str] | None = None) -> int:
    """The exit status: 1 if a row has an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("layers", "networks"))
    parser.add_argument("--cases", help="names, with commas between")
    parser.add_argument("--target", help="a named machine whose code runs here, instead of this one")
    parser.add_argument("--largest", type=int, default=quantise.LARGEST, help="weight of a layer")
    parser.add_argument("--threads", type=int, default=native().cores)
    parser.add_argument("--timing", type=float, default=3.0, help="seconds of timing per case")
    parser.add_argument("--json", help="file to write")
    given = parser.parse_args(words)
    wanted = given.cases.split(",") if given.cases else None
    settings = Settings(given.threads, given.timing, () if given.target else PEERS)
    target = Target.named(given.target, cores=given.threads) if given.target else native().with_facts(cores=given.threads)
    report = Report()
    report.begin()
    with quiet_machine():
        for layer in LAYERS if given.only != "networks" else ():
            if wanted is None or layer.name in wanted:
                report.add("layers", layer.name, of_layer(layer, settings, target, given.largest), line)
        for name in NETWORKS if given.only != "layers" else ():
            if wanted is None or name in wanted:
                report.add("networks", f"{name}-int8", of_network(name, settings, target), line)
                report.write(given.json)
    for section in report.sections:
        report.print(section)
    report.write(given.json)
    return 1 if report.errors else 0


def of_layer(layer: Layer, settings: Settings, target: Target, largest: int = quantise.LARGEST) -> Row:
    quantised, real = (ts.load(quantise.layer(layer, q, largest)) for q in (True, False))
    x, floats = quantise.layer_input(layer, True), quantise.layer_input(layer, False)
    content = quantise.layer(layer, True, largest).SerializeToString()
    beside = {F32: contestant(F32, ts.compile(real, target=target), {"x": floats})}
    if any(len(task.formulations) > 1 for task in real.tasks()):
        direct = ts.compile(real, target=target, formulations="direct")
        beside[DIRECT] = contestant(DIRECT, direct, {"x": floats})
    return _contest(layer.name, quantised, content, {"x": x}, beside, settings, target, flops=2 * layer.products)


def of_network(name: str, settings: Settings, target: Target) -> Row:
    network: Network = quantise.network(name)
    model = ts.load(str(network.path))
    whole = quantise.real(name) if settings.frameworks else None
    return _contest(network.name, model, network.path.read_bytes(), network.inputs, {}, settings, target, real=whole)


def _contest(
    name: str,
    model: Model,
    content: bytes,
    inputs: Mapping[str, Array],
    beside: Mapping[str, NetworkPeer],
    settings: Settings,
    target: Target,
    flops: int = 0,
    real: Network | None = None,
) -> Row:
    """`real` is a network in f32, of which peers make quantised ones of their own."""
    notes: dict[str, str] = {}
    error = None
    with with_threads(settings.threads):
        ours = contestant(OURS, ts.compile(model, target=target), inputs)
        found = [ours, *beside.values()]
        for framework in settings.frameworks:
            try:
                found += _forms(framework, content, inputs, settings.threads)
            except Unavailable as why:
                notes[framework] = str(why)
        got, wanted = ours.outputs(), quantise.exact(model.graph, inputs)
        equal = min(float((a == b).mean()) for a, b in zip(got, wanted))
        peers = {one.name: one.outputs() for one in found[1 + len(beside) :]}
        others, errors = _by_own_quantisers(real, settings, got, notes) if real else ([], {})
        found += others
        near = {name: _within_a_step(got, outputs) for name, outputs in peers.items()}
        exact = {name: _within_a_step(outputs, wanted) for name, outputs in ({OURS: got} | peers).items()}
        if flops and equal < 1:
            error = f"wrong answer: {1 - equal:.2%} of the outputs are not the exact ones"
        elif exact[OURS] < max((exact[name] for name in peers), default=1.0):
            error = f"wrong answer: {1 - exact[OURS]:.2%} of the outputs are more than a step from the exact ones, of a peer fewer"
        runs = {one.name: one.run for one in found}
        result = hold(runs, (OURS, F32, DIRECT), name, settings, min_rounds=MIN_ROUNDS, slot_seconds=SLOT_SECONDS)
    entry = row(result, flops=flops, same_program=True, threads=settings.threads, notes=notes or None, error=error)
    entry |= {"error_to_f32": errors} if errors else {}
    entry |= {"equal_to_exact": equal, "within_a_step_of_exact": exact, "within_a_step_of_peers": near}
    if F32 in result.timings:
        entry["ratio_to_own_f32"] = result[F32].best / result[OURS].best
    if DIRECT in result.timings:
        entry["ratio_to_own_f32_direct"] = result[DIRECT].best / result[OURS].best
    return entry


def _by_own_quantisers(
    real: Network, settings: Settings, ours: Sequence[Array], notes: dict[str, str]
) -> tuple[list[NetworkPeer], dict[str, float]]:
    """Peers with quantisers of their own that are about as near to f32 as we are, and how near everyone is."""
    found: list[NetworkPeer] = []
    for framework in settings.frameworks:
        try:
            found += peers_int8.own(real, framework, settings.threads)
        except Unavailable as why:
            notes[f"{framework} own"] = str(why)
    right, errors, why_not = peers_int8.accepted(found, ours, peers_int8.answers_in_f32(real, settings.threads))
    notes |= why_not
    return right, errors


def _forms(framework: str, content: bytes, inputs: Mapping[str, Array], threads: int) -> Iterator[NetworkPeer]:
    require(framework)
    try:
        if framework == "onnxruntime":
            for way in onnxruntime_ways(onnxruntime_session(content, threads), inputs):
                yield _peer(framework, way)
        else:
            compiled = openvino_model(content, threads)
            for way in openvino_ways(compiled, [inputs[value.get_any_name()] for value in compiled.inputs]):
                yield _peer(framework, way)
    except Exception as problem:
        raise failure(problem) from problem


def _within_a_step(got: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The share of an output, the worst of them, that is at most one step of quantisation apart."""
    return min(float((_steps(a, b) <= 1).mean()) for a, b in zip(got, wanted))


def _steps(got: Array, wanted: Array) -> Array:
    """How many steps of quantisation outputs are apart: bytes by themselves, real numbers by their smallest distance."""
    if got.dtype.kind in "iu":
        return np.abs(got.astype(np.int64) - wanted.astype(np.int64))
    values = np.unique(np.concatenate([got.ravel(), wanted.ravel()]))
    apart = np.diff(values)
    step = float(apart[apart > 1e-6 * np.abs(values).max(initial=1)].min(initial=np.inf)) if len(apart) else np.inf
    return np.abs(got.astype(np.float64) - wanted) / (step if np.isfinite(step) else 1.0)


def line(entry: Row) -> str:
    parts = [f"{number(entry['ratio_to_best_peer'], '{:.2f}')} of {entry['best_peer']}"] if entry.get("best_peer") else []
    if "ratio_to_own_f32" in entry:
        parts.append(f"{entry['ratio_to_own_f32']:.2f} of our f32")
    if "ratio_to_own_f32_direct" in entry:
        parts.append(f"{entry['ratio_to_own_f32_direct']:.2f} of our f32 without Winograd's transforms")
    parts.append(f"{entry['equal_to_exact']:.4%} equal to the exact answer")
    parts += [f"{name} {share:.3%} within a step of it" for name, share in entry["within_a_step_of_exact"].items()]
    parts += [f"{share:.3%} within a step of {name}" for name, share in entry["within_a_step_of_peers"].items()]
    return "; ".join([*parts, *([entry["error"]] if "error" in entry else [])])


if __name__ == "__main__":
    raise SystemExit(main())
