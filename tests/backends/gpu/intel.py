"""Runs random candidates as SPIR-V on Intel's OpenCL for CPUs: `python -m tests.backends.gpu.intel WORKLOAD COUNT SEED`.

LLVM writes SPIR-V; of the OpenCL drivers that are to be had without a GPU this one takes it. Says "right" for each candidate."""

from __future__ import annotations

import sys

import numpy as np
import pyopencl as cl
from tests.backends.gpu.drawn import WORKLOADS, candidates, problems

from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.printers.llvm import object_file
from tensorsmith.backends.gpu.printers.machines import SPIRV
from tensorsmith.backends.gpu.printers.names import entry
from tensorsmith.backends.gpu.simt.ir import Kernel
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower

TARGET = NAMED["opencl"]


def results(made: list[Kernel], workload: Workload, inputs: dict[str, np.ndarray], context: cl.Context) -> list[np.ndarray]:
    """The outputs of kernels, run one after the other."""
    queue, flags = cl.CommandQueue(context), cl.mem_flags
    program = cl.Program(context, object_file(made, SPIRV)).build()
    held = {name: cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(a)) for name, a in inputs.items()}
    for kernel in made:
        for a in kernel.arguments:
            if a.name not in held:
                held[a.name] = cl.Buffer(context, flags.READ_WRITE, max(16, a.bytes))
        function = cl.Kernel(program, entry(kernel.name))
        function.set_args(*(held[a.name] for a in kernel.arguments))
        cl.enqueue_nd_range_kernel(queue, function, (kernel.grid * kernel.block,), (kernel.block,)).wait()
    found = []
    for name in workload.outputs:
        b = workload.buffers[name]
        found.append(np.empty(b.shape, dtype(b.dtype).numpy))
        cl.enqueue_copy(queue, found[-1], held[name]).wait()
    return found


def main(name: str, count: str, seed: str) -> None:
    (device,) = [d for p in cl.get_platforms() if p.name.startswith("Intel") for d in p.get_devices()]
    context = cl.Context([device])
    workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    want = evaluate(workload, inputs, precise=True)
    for candidate in candidates(workload, int(count), int(seed), TARGET):
        wrong = problems(workload, want, results(kernels(lower(candidate), ahead=False), workload, inputs, context))
        print(wrong or "right")


if __name__ == "__main__":
    main(*sys.argv[1:])
