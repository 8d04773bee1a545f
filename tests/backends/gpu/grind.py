"""Runs candidates on whatever OpenCL there is: `oclgrind python -m tests.backends.gpu.grind NAME COUNT SEED [FAULT]`."""

from __future__ import annotations

import sys

from tests.backends.gpu.drawn import OPENCL, WORKLOADS, candidates, problems
from tests.backends.gpu.faults import faults

from tensorsmith.backends.gpu.generate import launches_of
from tensorsmith.backends.gpu.opencl import driver
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.build import build
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.program.lower import lower


def main(name: str, count: int, seed: int, fault: int | None) -> None:
    workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    want = evaluate(workload, inputs, precise=True)
    for candidate in candidates(workload, count, seed):
        if fault is None:
            print(problems(workload, want, build(candidate, OPENCL)(**inputs)) or "right")
            continue
        program = lower(candidate)
        made = kernels(program)
        changed = [*made[:-1], list(faults(made[-1]))[fault][1]]
        launches = launches_of(program, changed, OPENCL)
        device, module = driver(), driver().load(launches)
        sizes = [*(b.bytes for b in workload.inputs), *(workload.buffers[n].bytes for n in workload.outputs), *launches.scratch]
        memory = [device.allocate(size) for size in sizes]
        for at, array in zip(memory, inputs.values()):
            device.write((at, 0), array)
        for n, one in enumerate(launches.launches):
            module.start(n, [(memory[a], 0) for a in one.arguments])
        device.finish()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)
