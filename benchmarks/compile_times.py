"""How long compiling takes: models without any search, with default schedules, and where the time goes.

    python benchmarks/compile_times.py [--models lstm_500,resnet50,...] [--repeat 3] [--json FILE] [--against FILE]

The models are the benchmark's networks (`models.py`; those whose file is not there yet are left out, `--make` makes them) and those
of `zoo/made.py`. Each is loaded and compiled in a process of its own, behind a tiny model that pays what a process pays once
(imports, LLVM, the driver). CPU seconds are those of the whole process and of those that compile for it: on a busy machine they say
more than wall seconds do. With `--repeat` the least of so many processes is taken. The phases are CPU seconds as well:

    import      the file to a graph           schedule    the default schedules of the tasks
    passes      of the graph                  lower       schedules to loop programs
    fuse        nodes to kernels              generate    loop programs to LLVM's text
    tasks       kernels to workloads          llvm        text to machine code
    pack        constants                     rest        all else: the plan of memory and the table of steps, linking

`--against` compares with the JSON file of an earlier run, of this version of the package or another: PYTHONPATH says which.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from about import about, text

PHASES = ("import", "passes", "fuse", "tasks", "schedule", "lower", "generate", "llvm", "pack", "rest")
#: by phase, the functions that it consists of: the module that calls them, and their name there
_FUNCTIONS = {
    "passes": [("tensorsmith.graph.passes", "optimise")],
    "tasks": [("tensorsmith.graph.tasks", "partition")],
    "fuse": [("tensorsmith.graph.tasks", "fuse")],
    "lower": [("tensorsmith.build", "lower")],
    "generate": [("tensorsmith.backends.cpu.backend", "generate_ir")],
    "llvm": [("tensorsmith.backends.cpu.backend", "compile_ir")],
    "pack": [("tensorsmith.build", "_store"), ("tensorsmith.build", "_transform_and_pack")],
}

Row = dict[str, Any]


class Phases:
    """CPU seconds by phase. A phase inside another one is not counted twice; each thread has its own clock."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._own = threading.local()
        self._lock = threading.Lock()

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        stack: list[float] = self._own.__dict__.setdefault("stack", [])
        stack.append(0.0)  # seconds of the phases inside this one
        start = time.thread_time()
        try:
            yield
        finally:
            taken = time.thread_time() - start
            inside = stack.pop()
            if stack:
                stack[-1] += taken
            with self._lock:
                self.seconds[phase] += taken - inside

    def watched(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.during(phase):
                return function(*args, **kwargs)

        return call


def measured(source: Any, shapes: Mapping[str, Any]) -> Row:
    """Seconds of loading and compiling one model in this process, by phase, and what came of it."""
    import tensorsmith as ts
    from tensorsmith.backends.cpu.backend import BACKEND
    from zoo.made import Maker

    small = Maker()
    ts.compile(ts.load(small.model("small", {"x": (4, 4)}, small.op("Relu", small.op("MatMul", "x", small.weight(4, 4))))))
    phases = Phases()
    for phase, functions in _FUNCTIONS.items():
        for module_name, name in functions:
            module = importlib.import_module(module_name)
            if hasattr(module, name):  # versions that have none of that name count its time as another phase's
                setattr(module, name, phases.watched(phase, getattr(module, name)))
    object.__setattr__(BACKEND, "default_candidate", phases.watched("schedule", BACKEND.default_candidate))
    own, others, wall = time.process_time(), _children(), time.perf_counter()
    with phases.during("import"):
        model = ts.load(source, shapes=shapes)
    executable = ts.compile(model)
    wall = time.perf_counter() - wall
    own, others = time.process_time() - own, _children() - others
    phases.seconds["rest"] = own - sum(phases.seconds.values())
    phases.seconds["llvm"] += others
    seconds = {"cpu": own + others, "wall": wall}
    network = executable.network
    counts = {"nodes": len(model.graph.nodes), "kernels": len(network.kernels), "calls": len(network.steps)}
    return {**seconds, "phases": phases.seconds, **counts}


def _children() -> float:
    """CPU seconds of processes that have ended: those that compile."""
    used = os.times()
    return used.children_user + used.children_system


def one(name: str) -> Row:
    """What `measured` says of a model by its name, without its shapes where the file has them."""
    from zoo.made import MADE

    if name in MADE:
        return measured(MADE[name](), {})
    import models

    network = models.get(name)
    return measured(network.path, {key: array.shape for key, array in network.inputs.items()})


def apart(name: str, repeat: int) -> Row:
    """The same, the best of some processes."""
    found = []
    for _ in range(repeat):
        command = [sys.executable, __file__, "--one", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"error": (done.stderr.strip() or "it ended without a word").splitlines()[-1]}
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(found, key=lambda row: row["cpu"])


def names(make: bool) -> list[str]:
    """All models: the networks that there are files of, or all of them, and those that are made here."""
    import models
    from zoo.made import MADE

    there = [n for n in models.MODELS if make or (models.CACHE / f"{n}-b1.onnx").exists() or _unpacked(n, models)]
    return [*there, *MADE]


def _unpacked(name: str, models: Any) -> bool:
    """Whether the wheel that a network comes from is there."""
    folder = {"ppocr": "ocr", "silero": "vad"}.get(name.split("_", maxsplit=1)[0])
    return folder is not None and (models.CACHE / folder).exists()


def table(rows: Mapping[str, Row], before: Mapping[str, Row]) -> Table:
    made = Table(title="loading and compiling, CPU seconds", title_justify="left")
    made.add_column("model", no_wrap=True)
    columns = ["nodes", "kernels", "calls", *(["kernels before", "CPU before"] if before else []), "CPU", "wall", *PHASES]
    for column in columns:
        made.add_column(column, justify="right", no_wrap=True)
    for name, row in rows.items():
        if "error" in row:
            made.add_row(f"[red]{name}", row["error"][:60])
            continue
        old = before.get(name, {})
        cells = [str(row[count]) for count in ("nodes", "kernels", "calls")]
        cells += [str(old.get("kernels", "")), _seconds(old.get("cpu"))] if before else []
        cells += [_seconds(row["cpu"]), _seconds(row["wall"]), *(_seconds(row["phases"][p]) for p in PHASES)]
        made.add_row(name, *cells)
    return made


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="names, separated by commas; all by default")
    parser.add_argument("--repeat", type=int, default=1, help="processes per model, of which the least is taken")
    parser.add_argument("--make", action="store_true", help="make the files that are not there (needs PyTorch)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--against", type=Path, help="the JSON file of an earlier run")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what each process does
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one)))
        return
    before = json.loads(given.against.read_text())["models"] if given.against else {}
    console = Console(width=None if sys.stdout.isatty() else 200)
    run = about()
    console.print(text(run), f"load average {os.getloadavg()[0]:.1f} at the start\n", sep="\n")
    rows: dict[str, Row] = {}
    for name in given.models.split(",") if given.models else names(given.make):
        rows[name] = apart(name, given.repeat)
        print(name, rows[name].get("error") or f"{rows[name]['cpu']:.2f} s", file=sys.stderr, flush=True)
        if given.json:
            given.json.write_text(json.dumps({"about": run, "models": rows}, indent=1) + "\n")
    console.print(table(rows, before))


if __name__ == "__main__":
    main()
