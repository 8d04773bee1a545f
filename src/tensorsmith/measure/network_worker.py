"""The process of `measure.networks`: `python -m tensorsmith.measure.network_worker FOLDER PARENT`.

The folder holds networks and a request. The process writes down which network it is at, then the answers of each to a file of its
own, and the times of all.
"""

from __future__ import annotations

import importlib
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.measure.networks import PROGRESS, REQUEST, TIMES
from tensorsmith.measure.worker import limit_memory, load_hook, lower_priority_for_memory, watch_parent
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.load import load
from tensorsmith.runtime.running import Prepared

Array = np.ndarray[Any, np.dtype[Any]]

_LEAST_ROUNDS, _MOST_ROUNDS = 16, 40
_SECONDS = 5.0
_QUARTILE = 0.25  # of the rounds: the best one may be luck, the median is the neighbours'


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    folder = Path(sys.argv[1])
    watch_parent(folder, int(sys.argv[2]))
    lower_priority_for_memory()
    limit_memory(None)  # no core files
    request = json.loads((folder / REQUEST).read_text())
    for module in request["backends"]:
        importlib.import_module(module)  # kinds of targets that are not the package's own
    hook = load_hook(request["hook"]) if request["hook"] else None
    with open(folder / PROGRESS, "w", buffering=1) as progress:

        def begin(point: str, number: int) -> None:
            print(number, file=progress)
            if hook is not None:
                hook(point, number)

        networks, runs = [], []
        for number in range(request["networks"]):
            begin("check", number)
            network = load(folder / f"{number}.tsm")
            prepared = network.prepare(*network.random_inputs())
            prepared.poison()
            _answer(prepared, folder / f"{number}-first.npz")
            networks.append(network)
            runs.append(prepared)
        if request["timed"]:
            seconds = in_turns(networks, runs, lambda number: begin("time", number))
            np.savez(folder / TIMES, *seconds)
            for number, prepared in enumerate(runs):
                begin("check", number)
                _answer(prepared, folder / f"{number}-last.npz")


def _answer(prepared: Prepared, path: Path) -> None:
    prepared.repeat(1)
    np.savez(path, *prepared.outputs)


def in_turns(
    networks: list[Executable],
    runs: list[Prepared],
    begin: Callable[[int], None],
    clock: Callable[[], float] = time.monotonic,
) -> list[Array]:
    """Seconds of the steps of each network, which run one after the other, in changing order, again and again."""
    stepwise = [prepared.stepwise() for prepared in runs]
    # a network that fills the caches finds nothing of its last run there anyway
    warm = [network.memory.constants <= network.network.target.shared_cache_bytes for network in networks]
    rows: list[list[Array]] = [[] for _ in networks]
    start, order, shuffled = clock(), list(range(len(networks))), random.Random(0)
    while len(rows[0]) < _MOST_ROUNDS and (len(rows[0]) < _LEAST_ROUNDS or clock() - start < _SECONDS):
        shuffled.shuffle(order)
        for n in order:
            begin(n)
            if warm[n]:
                stepwise[n]()  # finds the caches as another network left them
            rows[n].append(stepwise[n]())
    return [np.quantile(times, _QUARTILE, axis=0) for times in rows]


if __name__ == "__main__":
    main()
