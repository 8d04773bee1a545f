"""Memory of a network ready to run: ours from its saved file, ONNX Runtime's from the ONNX file, each in a process of its own.

    python benchmarks/network_memory.py {tensorsmith,onnxruntime} FOLDER THREADS     # in such a process: prints JSON

It is the growth of the resident memory from before the file is opened until some runs are done, at its peak. A tiny network runs
first: what that one takes is the library's, and given apart.
"""

from __future__ import annotations

import gc
import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import tensorsmith as ts
from frameworks import onnxruntime_session
from models import Network
from network_overhead import SIZE, chain
from peers_networks import fixed_shapes
from rows import OURS
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from ways import Array

RUNS = 3
_SECONDS = 600.0


def memory(network: Network, executable: Executable, threads: int) -> dict[str, dict[str, int]]:
    """Bytes of the "library" and of the "network", by whose; what fails is left out, and says why on standard error."""
    found = {}
    tiny = chain(1)
    example = {"x": np.ones((1, SIZE), np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        for part, exe, model, inputs in (
            ("library", ts.compile(ts.load(tiny)), tiny.SerializeToString(), example),
            ("network", executable, fixed_shapes(network), network.inputs),
        ):
            exe.save(Path(folder, f"{part}.tsm"))
            Path(folder, f"{part}.onnx").write_bytes(model)
            np.savez(Path(folder, f"{part}.npz"), **inputs)
        for name in PROGRAMS:
            command = [sys.executable, __file__, name, folder, str(threads)]
            process = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_SECONDS, check=False)
            if process.returncode == 0:
                found[name] = json.loads(process.stdout)
    return found


def peak_increase(run: Callable[[], object]) -> int:
    """By how many bytes the resident memory grew at most while `run` ran. Linux only."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(key: str) -> int:
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"^{key}:\s+(\d+) kB$", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"this system does not tell {key} of a process; memory can be measured on Linux only")
    return int(found[1]) * 1024


def _ours(file: Path, inputs: dict[str, Array], threads: int) -> object:
    executable = ts.load_executable(file.with_suffix(".tsm"))  # first: it brings the pool's code along
    with with_threads(threads):
        for _ in range(RUNS):
            executable.run(inputs)
    return executable


def _onnxruntime(file: Path, inputs: dict[str, Array], threads: int) -> object:
    made = onnxruntime_session(str(file.with_suffix(".onnx")), threads)
    for _ in range(RUNS):
        made.run(None, inputs)
    return made


PROGRAMS: dict[str, Callable[[Path, dict[str, Array], int], object]] = {OURS: _ours, "onnxruntime": _onnxruntime}


def main() -> None:
    name, folder, threads = sys.argv[1:]
    importlib.import_module(name)
    sizes, kept = {}, []
    for part in ("library", "network"):
        with np.load(Path(folder, f"{part}.npz")) as saved:
            inputs = {key: saved[key] for key in saved.files}
        run = partial(PROGRAMS[name], Path(folder, part), inputs, int(threads))
        sizes[part] = peak_increase(lambda run=run: kept.append(run()))  # kept, so that the next cannot use its memory
    print(json.dumps(sizes))


if __name__ == "__main__":
    main()
