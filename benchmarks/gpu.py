"""What can be said of code for GPUs without one. Nothing runs on a GPU here.

    python benchmarks/gpu.py [--only compiled,best,speed] [--count 8] [--best 20] [--seed 0] [--json FILE]

`compiled`: random candidates of each workload for compute capability 7.5, 8.0, 9.0 and 12.0, through LLVM and NVIDIA's `ptxas`,
which has to be on the PATH: how many it takes, whether shared memory is as predicted, registers predicted over registers given,
spills, and the CPU time from a candidate to PTX. `best`: of 512 candidates of each workload, those that the prior calls the best:
what is spilled. `speed`: candidates per second of CPU through features and prior.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.generate import generate
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.prior import estimated_seconds
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.population.population import unique
from tensorsmith.space.population.sampling import sample, sample_plan
from tensorsmith.space.sketch.sketch import Candidate

DEVICES = ("t4", "a100", "h100", "rtx5090")  # compute capability 7.5, 8.0, 9.0, 12.0
NAMES = (
    "GMM-4-b1", "GMM-1-b16", "C1D-1-b1", "C2D-3-b1", "C3D-4-b1", "GRP-3-b1", "DIL-2-b1", "DEP-1-b1", "T2D-2-b1", "NRM-2-b1",
    "ConvLayer-2-b1", "TBS-1-b1", "softmax-4096x1024", "layer_norm-4096x1024", "max_pool-small", "matmul-small",
)  # fmt: skip
SPEED = ("ConvLayer-2-b1", "GMM-4-b1", "TBS-1-b1", "DEP-1-b1", "matmul-f16")
POPULATION = 4096
DRAWN = 512  # of which the best by the prior are taken
Row = dict[str, Any]


def workloads() -> dict[str, Workload]:
    """Of the catalogue, and a product in f16, whose tiles matrix instructions compute where there are such."""
    a, b = ts.placeholder((1024, 1024), "f16", name="A"), ts.placeholder((1024, 1024), "f16", name="B")
    k = ts.reduce_axis(1024, name="k")
    c = ts.compute((1024, 1024), lambda i, j: ts.sum(ts.cast("f32", a[i, k]) * ts.cast("f32", b[k, j]), axis=k), name="C")
    return {"matmul-f16": ts.workload([a, b, c]), **{name: catalogue.get(name).workload() for name in NAMES}}


def drawn(workload: Workload, target: GpuTarget, count: int, seed: int) -> list[Candidate]:
    """So many candidates, or as many as there are, of all sketches in turn."""
    plans = space_of(workload, target).plans
    rng = np.random.default_rng(seed)
    found = [unique(sample_plan(plan, count, rng)) for plan in plans]
    turns = [plans[n].candidate(rows[k]) for k in range(count) for n, rows in enumerate(found) if k < len(rows)]
    return turns[:count]


def compile_one(candidate: Candidate, target: GpuTarget) -> list[Row]:
    """What compilers say of every kernel of a candidate; one row with `refused` where one does not take it."""
    start = time.process_time()
    try:
        launches = Launches.from_bytes(generate(lower(candidate), target).code.data)
    except Refusal as why:
        return [{"refused": str(why), "by": "us"}]
    seconds = time.process_time() - start
    try:
        said = ptxas.compiled(launches.text, target.architecture)
    except Refusal as why:
        return [{"refused": str(why), "by": "ptxas"}]
    (features,) = extract_rows([(candidate.sketch, candidate.decisions)], target).matrices()
    rows = []
    for n, launch in enumerate(launches.launches):
        found = said[launch.kernel]
        rows.append(
            {
                "kernel": launch.kernel,
                "seconds": seconds if n == 0 else 0.0,  # of the whole candidate
                "registers": found.registers,
                "predicted": float(features.raw("registers")[0, n]),
                "shared": found.shared_bytes,
                "shared_predicted": round(float(features.raw("shared_bytes")[0, n])),
                "spilled": found.spilled_bytes,
                "matrix": bool(features.raw("matrix_multiply_adds")[0, n] > 0),
            }
        )
    return rows


def compiled(device: str, count: int, seed: int) -> dict[str, list[list[Row]]]:
    """By workload: every candidate's kernels."""
    target = NAMED[device]
    return {name: [compile_one(c, target) for c in drawn(w, target, count, seed)] for name, w in workloads().items()}


def best(device: str, count: int, seed: int) -> dict[str, list[list[Row]]]:
    """The same of those that the prior puts first."""
    target, found = NAMED[device], {}
    for name, workload in workloads().items():
        candidates = drawn(workload, target, DRAWN, seed)
        expected = estimated_seconds(extract_rows([(c.sketch, c.decisions) for c in candidates], target), target)
        found[name] = [compile_one(candidates[n], target) for n in np.argsort(expected, kind="stable")[:count]]
    return found


def speed(name: str, device: str = "a100", seed: int = 0, repeats: int = 3) -> float:
    """Candidates per second of CPU through features and prior."""
    target = NAMED[device]
    space = space_of(workloads()[name], target)
    populations = sample(space, POPULATION, np.random.default_rng(seed))
    batches = [(g.sketch, g.decisions) for p in populations for g in space.plans[p.plan].groups(p.matrix)]
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        estimated_seconds(extract_rows(batches, target), target)
        taken.append(time.process_time() - start)
    return sum(len(p) for p in populations) / min(taken)


def summary(found: dict[str, list[list[Row]]]) -> Row:
    """Over all workloads."""
    candidates = [c for many in found.values() for c in many]
    kernels = [k for c in candidates for k in c if "refused" not in k]
    ratios = np.array([k["predicted"] / k["registers"] for k in kernels])
    seconds = np.array([sum(k["seconds"] for k in c) for c in candidates if "refused" not in c[0]])
    shared = [k for k in kernels if k["shared"] or k["shared_predicted"]]
    return {
        "workloads": len(found),
        "candidates": len(candidates),
        "kernels": len(kernels),
        "with_matrix_instructions": sum(k["matrix"] for k in kernels),
        "refused": [k["refused"] for c in candidates for k in c if "refused" in k],
        "shared": len(shared),
        "shared_as_predicted": sum(0 <= k["shared_predicted"] - k["shared"] < 16 for k in shared),  # rounded up to 16 at the end
        "register_ratio": [float(q) for q in np.quantile(ratios, [0.1, 0.25, 0.5, 0.75, 0.9])],
        "registers_apart": float(np.median(np.abs(ratios - 1))),
        "spilling": sum(k["spilled"] > 0 for k in kernels),
        "ptx_median": float(np.median(seconds)),
        "ptx_most": float(seconds.max()),
    }


def shown(device: str, s: Row) -> str:
    low, quarter, half, three, high = s["register_ratio"]
    return "\n".join(
        [
            f"{device} ({NAMED[device].architecture}): {s['candidates']} candidates of {s['workloads']} workloads, "
            f"{s['kernels']} kernels ({s['with_matrix_instructions']} with matrix instructions)",
            f"  taken: {s['candidates'] - len(s['refused'])}; refused: {len(s['refused'])} {sorted(set(s['refused']))[:3] or ''}",
            f"  shared memory as predicted: {s['shared_as_predicted']} of {s['shared']} kernels that have some",
            f"  registers, predicted over given: median {half:.2f} (quarters {quarter:.2f} to {three:.2f}, tenths {low:.2f} to "
            f"{high:.2f}); apart in the median: {s['registers_apart']:.0%}",
            f"  kernels that spill: {s['spilling']}",
            f"  from a candidate to PTX, CPU time: median {1e3 * s['ptx_median']:.0f} ms, most {s['ptx_most']:.2f} s",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="compiled,best,speed", help="what to show")
    parser.add_argument("--devices", default=",".join(DEVICES), help="for which GPUs")
    parser.add_argument("--count", type=int, default=8, help="candidates of each workload")
    parser.add_argument("--best", type=int, default=20, help="candidates that the prior puts first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="a file for programs")
    options = parser.parse_args(arguments)
    devices, parts = options.devices.split(","), options.only.split(",")
    result: dict[str, Any] = {}
    if ptxas.found() is None and {"compiled", "best"} & set(parts):
        raise SystemExit("there is no ptxas on the PATH")
    if "compiled" in parts:
        print("random candidates, through LLVM and ptxas")
        for device in devices:
            result.setdefault("compiled", {})[device] = s = summary(compiled(device, options.count, options.seed))
            print(shown(device, s), flush=True)
    if "best" in parts:
        print(f"the {options.best} best of {DRAWN} by the prior, of each workload")
        for device in devices:
            found = best(device, options.best, options.seed)
            result.setdefault("best", {})[device] = s = summary(found)
            print(shown(device, s), flush=True)
            spilling = {name: sum(any(k.get("spilled") for k in c) for c in many) for name, many in found.items()}
            print(f"  candidates that spill, by workload: { {n: k for n, k in spilling.items() if k} or 'none' }")
    if "speed" in parts:
        print("candidates per second of CPU, through features and prior (a100)")
        for name in SPEED:
            result.setdefault("speed", {})[name] = rate = speed(name)
            print(f"  {name:<20} {rate:>10,.0f}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
