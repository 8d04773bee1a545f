"""One or two of everything that a user can hold, made on a fixed target where it is not run."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tensorsmith as ts
from tensorsmith.backends import backend_of, space_of
from tensorsmith.backends.backend import backend_named
from tensorsmith.build import build_kernel
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.prior import PriorModel
from tensorsmith.learn.models.random import RandomModel
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.records import Record, Store, Timing
from tensorsmith.report import data
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.runtime.executable import Benchmark, Memory
from tensorsmith.runtime.profile import Profile, StepTime
from tensorsmith.runtime.variants.symbols import OpenArgument
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.policies.tensorsmith import TensorsmithPolicy
from tensorsmith.search.policy import as_preset
from tensorsmith.search.trial import Status, Trial
from tensorsmith.tuning.progress.network import NetworkProgress, Settled, TaskSummary
from tensorsmith.tuning.progress.workload import Progress

EVIL = "<script>alert('x & y')</script>"
TARGET = ts.Target.named("znver3", cores=2)
TIMING = Timing("warm", 2)


def tensors(n: int = 16, name: str = "C") -> list[Any]:
    A = ts.placeholder((n, 24), name="A")
    B = ts.placeholder((24, 32), name="B", constant=True)
    k = ts.reduce_axis(24, name="k")
    C = ts.compute((n, 32), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name=name)
    return [A, B, C]


def matmul(n: int = 16, name: str = "C") -> Workload:
    return ts.workload(tensors(n, name))


def model(widths: tuple[int, ...] = (8, 8, 4), name: str = "dense", output: str = "y", rows: int = 4) -> ts.Model:
    b = Builder(name)
    h = b.input("x", (rows, widths[0]), "f32")
    for n, width in enumerate(widths[1:]):
        h = b.add("relu", [b.add("matmul", [h, b.constant(np.full((h.shape[1], width), n + 1.0, np.float32))])])
    b.output(output, h)
    return ts.Model.from_graph(b.graph())


def open_model(sizes: tuple[int, ...] = (4, 8), name: str = "dense") -> OpenModel:
    """The model above with any number of rows."""

    def make(found: Mapping[str, int]) -> ts.Model:
        return model(name=name, rows=found["rows"])

    return OpenModel(name, [OpenArgument("x", ("rows", 8), "f32")], {"rows": sizes}, make)


@functools.cache
def candidate(n: int = 16, name: str = "C") -> Any:
    return backend_of(TARGET).default_candidate(matmul(n, name), TARGET)


def record(seconds: float | None = 12.3e-6, n: int = 16) -> Record:
    status = Status.OK if seconds else Status.CRASHED
    return Record(Trial(candidate(n), status, seconds, cause="" if seconds else EVIL), TARGET, TIMING, "", 1.7e9, f"{n}{seconds}")


def store(path: Path | None = None) -> Store:
    opened = Store.in_memory() if path is None else Store.open(path)
    trials = [Trial(candidate(), Status.OK, 12.3e-6), Trial(candidate(), Status.CRASHED, cause=EVIL)]
    opened.add(matmul(), TARGET, TIMING, trials[:1])
    opened.add(matmul(32), TARGET, TIMING, [Trial(candidate(32), Status.OK, 45.6e-6), Trial(candidate(32), Status.REFUSED)])
    return opened


def profile(name: str = "net", schedule: str = "record") -> Profile:
    conv = StepTime(0, "conv f32[8]", "f32[8]", 3e-3, 6000, schedule)
    return Profile(name, (conv, StepTime(None, "copy", "", 1e-3), conv, StepTime(1, EVIL, "f32[8]", 9e-3, 100, "default")))


def report(title: str = "net") -> data.Report:
    task = data.Task("conv f32[8]", "a" * 16, "8 -> 8", 3, (), 10, 10.0, 7, 1, 1e-3, 2e-3, "", None, None, 1e-3, "alone", 1.0)
    setting = data.Setting("x86_64/znver3", "warm cache, 2 threads", (), data.Roof(1.0, 1.0, "measured"), 0.0, 1.0, (task,), ())
    return data.Report(title, "tune.db", title, 0.0, (), (setting,))


def everything() -> dict[str, list[Any]]:
    """By kind: several objects that are different things, made anew."""
    A, B, C = tensors()
    first, second = model(), model((8, 16, 4))
    built = [ts.compile(m, target=TARGET) for m in (first, second)]
    varying = [ts.compile(open_model(sizes), target=TARGET) for sizes in ((4, 8), (), (16,))]
    alone = [ts.compile(matmul(n), target=TARGET) for n in (16, 32)]
    opened = store()
    k, long = ts.reduce_axis(24), A[0, 0]
    for _ in range(60):
        long = long * A[0, 1] + 1.5
    longer = long + 1.5
    network = NetworkProgress(("dense",), (1e-3,), (2e-3,), 2, 2, "matmul f32[4, 8]", 10, 64, 3.0, failures=Counter(crashed=1))
    some = space_of(matmul(), TARGET)
    conv = ts.workload(catalogue.get("C2D-3-b1").tensors())
    return {
        "tensors": [A, B, C, ts.compute((3,), lambda i: A[i, i] + 1.0, name="C"), ts.placeholder((2,), name="long " * 40)],
        "axes": [k, ts.reduce_axis(32), ts.reduce_axis(24, name="r")],
        "expressions": [A[0, 0], A[0, 1], A[0, 0] + 1.0, long, longer, ts.exp(A[0, 0]), ts.select(A[0, 0] < 1.0, A[0, 0], 2.0)],
        "workloads": [matmul(), matmul(32), matmul(16, "D"), first.tasks()[0].workload, conv],
        "parts of workloads": [matmul().inputs[0], matmul().inputs[1], matmul().stages[0], matmul(32).stages[0]],
        "formulations": list(formulations(conv)),
        "models": [first, second, model(name=EVIL), model(name="two\nlines"), model((8, *[8] * 30))],
        "tasks": [*first.tasks(), *second.tasks()],
        "lists of tasks": [first.tasks(), model((8, *[8] * 30, 4)).tasks()[:1] and model((8, 8, 8, 4)).tasks()],
        "partitions": [first.partition, model(name="other").partition],
        "graphs": [first.source, second.source],
        "parts of graphs": [first.source.nodes[0], first.source.nodes[1], first.inputs[0], second.outputs[0]],
        "open models": [open_model(), open_model(()), open_model((4, 16)), open_model(name=EVIL), open_model(tuple(range(1, 65)))],
        "executables": [*built, *alone],
        "open executables": varying,
        "variants": [*varying[0].variants, *varying[2].variants],
        "tables of variants": [e.variants for e in varying],
        "open arguments": [open_model().inputs[0], OpenArgument("long " * 40, ("n", 3), "f32")],
        "networks": [built[0].network, built[1].network],
        "kernels": [*built[0].network.kernels, build_kernel(candidate(), TARGET, EVIL)],
        "code": [kernel.code for kernel in built[0].network.kernels],
        "arguments": [built[0].inputs[0], built[0].outputs[0]],
        "memory": [Memory(1, 2, 3), Memory(1 << 20, 0, 0)],
        "benchmarks": [Benchmark(1e-6, 2e-6, 2e-6, 1e-6, 3e-6, 100), Benchmark(1 / 3, 2 / 3, 1 / 7, 1 / 9, 1 / 11, 3)],
        "profiles": [profile(), profile("other"), *profile().kernels, profile().steps[0]],
        "targets": [TARGET, ts.Target.named("znver3", cores=4), TARGET.with_facts(l2_bytes=1 << 20), ts.Target.named("znver4")],
        "sketches": [*ts.sketches(matmul(), target=TARGET), *ts.sketches(matmul(32), target=TARGET)],
        "nests": [*candidate().sketch.nests, *candidate(32, "D").sketch.nests, *ts.sketches(conv, target=TARGET)[0].nests],
        "choices": [c for s in ts.sketches(conv, target=TARGET)[:1] for c in s.choices],
        "candidates": [candidate(), candidate(32), candidate(16, "D")],
        "programs": [lower(candidate()), lower(candidate(32))],
        "trials": [record().trial, record(None).trial, record(1e-3).trial],
        "records": [record(), record(None), record(1e-3), record(1e-3, 32)],
        "lists of records": [opened.top(matmul(), TARGET, TIMING, 5), opened.history(matmul(32), TARGET, TIMING)],
        "summaries": list(opened.workloads()),
        "lists of summaries": [opened.workloads()],
        "stores": [opened],
        "progress": [
            Progress(matmul(), 10, 64, 1e-6, 3.0),
            Progress(matmul(), 11, 64, 1e-6, 3.0, failures=Counter(crashed=1)),
            network,
            TaskSummary("conv f32[8]", 3, 16, 1e6, 1e-3, 2e-3),
            Settled(2e-3, 1e-3),
        ],
        "reports": [report(), report("other"), *report().settings, *report().settings[0].tasks],
        "spaces": [some, some.plans[0]],
        "policies": [RandomPolicy(some), TensorsmithPolicy(some), as_preset("random"), as_preset("ansor")],
        "models of cost": [PriorModel(), RandomModel(1), RandomModel(2), TreeModel(), TreeModel(TreeSettings(loss="paper"))],
        "backends": [backend_named("cpu")],
        "cases": [catalogue.get("C2D-3-b1"), catalogue.get("C2D-3-b16")],
    }
