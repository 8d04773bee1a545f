"""Requests per second, and how long the slowest hundredth takes: clients that each wait for their answer before they ask again.

    python benchmarks/throughput.py                                   # MobileNet-V2 and MiniLM, 1 to 8 clients
    python benchmarks/throughput.py --models mobilenet_v2 --clients 2,8 --seconds 3 --json throughput.json

Contestants, all in one process and with the same inputs: our stream (a worker for each CPU, a thread each) and our executable as it
is called on all threads; ONNX Runtime with one thread a call; OpenVINO with the hint THROUGHPUT, a request object for each client.
They take turns in an order that is drawn in every round; of the rounds, the median counts. Outputs are compared first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

import models
import tensorsmith as ts
from tensorsmith.targets.target import native

Inputs = Mapping[str, np.ndarray]
Call = Callable[[], np.ndarray]
MODELS = ("mobilenet_v2", "minilm")
OURS, OURS_CALLED = "tensorsmith stream", "tensorsmith, all threads"


@dataclass(frozen=True)
class Measured:
    """One contestant with so many clients: requests per second, and milliseconds of the median and of the slowest hundredth."""

    contestant: str
    clients: int
    rate: float
    median: float
    p99: float


def served(calls: Sequence[Call], seconds: float) -> tuple[float, list[float]]:
    """Requests per second, and the seconds of each, where every call belongs to a client that repeats it for that long."""
    found: list[list[float]] = [[] for _ in calls]
    gate, end = threading.Barrier(len(calls) + 1), 0.0

    def client(call: Call, times: list[float]) -> None:
        call()
        gate.wait()
        last = time.perf_counter()
        while last < end or not times:
            call()
            now = time.perf_counter()
            times.append(now - last)
            last = now

    threads = [threading.Thread(target=client, args=pair) for pair in zip(calls, found)]
    for thread in threads:
        thread.start()
    end = time.perf_counter() + 3600.0  # nobody ends before all have begun
    gate.wait()
    begun = time.perf_counter()
    end = begun + seconds
    for thread in threads:
        thread.join()
    times = [t for one in found for t in one]
    return len(times) / (time.perf_counter() - begun), times


@contextlib.contextmanager
def ours(path: str, inputs: Inputs, workers: int) -> Iterator[dict[str, Callable[[], Call]]]:
    """What makes a client's call, for both ways of ours."""
    model = ts.load(path, shapes={name: array.shape for name, array in inputs.items()})
    alone, together = ts.compile(model, threads=1), ts.compile(model)

    def first(result: np.ndarray | tuple[np.ndarray, ...]) -> np.ndarray:
        return result[0] if isinstance(result, tuple) else result

    with alone.stream(workers) as stream:
        yield {
            OURS: lambda: lambda: first(stream.submit(**inputs).result()),
            OURS_CALLED: lambda: lambda: first(together(**inputs)),
        }


def onnxruntime(path: str, inputs: Inputs) -> dict[str, Callable[[], Call]]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = dict(inputs)
    return {"onnxruntime, one thread a call": lambda: lambda: session.run(None, given)[0]}


def openvino(path: str, inputs: Inputs) -> dict[str, Callable[[], Call]]:
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    model.reshape({name: array.shape for name, array in inputs.items()})
    compiled = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_PRECISION_HINT": "f32"})

    def make() -> Call:
        request, given = compiled.create_infer_request(), dict(inputs)
        return lambda: request.infer(given)[0]

    return {"openvino, THROUGHPUT": make}


def contest(
    made: Mapping[str, Callable[[], Call]], clients: Sequence[int], seconds: float, rounds: int, seed: int = 0
) -> list[Measured]:
    """Everyone with every number of clients. Raises where one gives another answer."""
    wanted = made[OURS]()()
    for name, make in made.items():
        if not np.allclose(make()(), wanted, rtol=1e-3, atol=1e-3 * float(np.abs(wanted).max())):
            raise SystemExit(f"{name} gives another answer")
    order, found = random.Random(seed), []
    for count in clients:
        taken: dict[str, list[tuple[float, list[float]]]] = {name: [] for name in made}
        for _ in range(rounds):
            for name in order.sample(list(made), len(made)):
                taken[name].append(served([made[name]() for _ in range(count)], seconds))
        for name, runs in taken.items():
            times = np.concatenate([times for _, times in runs]) * 1e3
            rate = statistics.median(rate for rate, _ in runs)
            found.append(Measured(name, count, rate, float(np.median(times)), float(np.percentile(times, 99))))
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help=f"of {', '.join(models.MODELS)}")
    parser.add_argument("--clients", default="1,2,4,8")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one slot")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=native().cores, help="of our stream")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(words)
    rows = {}
    for name in options.models.split(","):
        network = models.get(name)
        path = str(network.path)
        with ours(path, network.inputs, options.workers) as made:
            everyone = dict(made)
            for peer in (onnxruntime, openvino):
                with contextlib.suppress(ImportError):
                    everyone |= peer(path, network.inputs)
            rows[name] = contest(everyone, [int(n) for n in options.clients.split(",")], options.seconds, options.rounds)
        for row in rows[name]:
            figures = f"{row.rate:9.1f} requests/s  median {row.median:8.2f} ms  p99 {row.p99:8.2f} ms"
            print(f"{name:14} {row.clients:2} clients  {row.contestant:32} {figures}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump({name: [asdict(row) for row in found] for name, found in rows.items()}, stream, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
