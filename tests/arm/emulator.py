"""Kernels for another machine, run here: linked by a cross compiler into one small program, which an emulator runs.

The program gets the bytes of every argument from a file, fills outputs and scratch memory with ones, runs each kernel as two
threads would share it out, one after the other, and writes the outputs. What it says about speed means nothing.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tensorsmith.backends.cpu.export.objects import kernel_object
from tensorsmith.runtime.buffers import as_bytes, round_up
from tensorsmith.runtime.built import Kernel, Network

THREADS = 2


@dataclass(frozen=True)
class Machine:
    """What compiles for it, with which words, what runs it, and the command that installs both."""

    compiler: str
    flags: tuple[str, ...]
    emulator: tuple[str, ...]
    command: str

    @property
    def missing(self) -> list[str]:
        return [program for program in (self.compiler, self.emulator[0]) if shutil.which(program) is None]

    def on(self, cpu: str) -> Machine:
        """Another processor that the emulator knows."""
        return replace(self, emulator=(*self.emulator[:-1], cpu))

    @property
    def libraries(self) -> tuple[str, ...]:
        """What programs with threads are linked with; WebAssembly has none."""
        return ("-lm",) if "wasm" in self.flags[0] else ("-lm", "-lpthread")

    @property
    def needed(self) -> pytest.MarkDecorator:
        return pytest.mark.skipif(bool(self.missing), reason=f"needs {', '.join(self.missing)}: `{self.command}` installs it")


AARCH64 = Machine("aarch64-linux-gnu-gcc", ("-static",), ("qemu-aarch64-static", "-cpu", "max"), "make test-arm")
#: with scalable vectors of so many bits
SVE = {bits: AARCH64.on(f"max,sve{bits}=on") for bits in (128, 256, 512)}
RISCV64 = Machine(
    "riscv64-linux-gnu-gcc",
    ("-static",),
    ("qemu-riscv64-static", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"),
    "make test-riscv",
)
WASM = Machine(
    "clang-19",
    ("--target=wasm32-wasi", "-fuse-ld=/usr/bin/wasm-ld-19", "-Wl,-z,stack-size=1048576"),
    ("node", "--no-warnings", str(Path(__file__).parent / "wasi.mjs")),
    "make test-wasm",
)


@dataclass(frozen=True)
class Job:
    """A network of one kernel, and its inputs as a user has them."""

    network: Network
    inputs: Sequence[np.ndarray]

    @property
    def kernel(self) -> Kernel:
        return self.network.kernels[0]

    def arguments(self) -> list[bytes | memoryview]:
        """As the code reads them."""
        packers = self.kernel.packers
        return [as_bytes(np.ascontiguousarray(packers[n](x) if n in packers else x)) for n, x in enumerate(self.inputs)]


def run(jobs: Sequence[Job], folder: Path, machine: Machine = AARCH64) -> list[list[np.ndarray]]:
    """The outputs of each."""
    folder.mkdir(parents=True, exist_ok=True)
    objects = [kernel_object(job.kernel, f"kernel_{n}") for n, job in enumerate(jobs)]
    for o in objects:
        (folder / o.name).write_bytes(o.data)
    (folder / "main.c").write_text(_program(jobs))
    with open(folder / "in", "wb") as stream:
        for job in jobs:
            for data in job.arguments():
                stream.write(data)
    names = [o.name for o in objects]
    _do([machine.compiler, "-std=c11", "-O1", *machine.flags, "main.c", *names, "-o", "main", "-lm"], folder)
    _do([*machine.emulator, "./main"], folder)
    return _outputs(jobs, (folder / "out").read_bytes())


def _program(jobs: Sequence[Job]) -> str:
    declared = "".join(f"void kernel_{n}(void **, void *, void *, parallel_for);\n" for n in range(len(jobs)))
    calls = ""
    for n, job in enumerate(jobs):
        sizes = [len(data) for data in job.arguments()] + [round_up(a.bytes) for a in job.network.outputs]
        told = ", ".join(map(str, [*sizes, round_up(job.kernel.scratch_for(THREADS))]))
        calls += f"    job(kernel_{n}, {len(job.inputs)}, {len(sizes)}, (long[]){{{told}}});\n"
    return _MAIN.replace("DECLARED", declared).replace("CALLS", calls)


def _outputs(jobs: Sequence[Job], data: bytes) -> list[list[np.ndarray]]:
    found, at = [], 0
    for job in jobs:
        results = []
        for a in job.network.outputs:
            results.append(np.frombuffer(data, a.numpy_dtype, a.bytes // a.numpy_dtype.itemsize, at).reshape(a.shape))
            at += round_up(a.bytes)
        found.append(results)
    return found


def _do(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command[:3])} ended with {done.returncode}: {done.stdout}{done.stderr}"


_MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef void (*body)(void *context, int64_t begin, int64_t end, int64_t thread);
typedef void (*parallel_for)(void *pool, body b, void *context, int64_t count);
typedef void (*entry)(void **arguments, void *scratch, void *pool, parallel_for p);
DECLARED
static FILE *in, *out;

static void share_out(void *pool, body b, void *context, int64_t count) {
    (void)pool;
    if (count / 2) b(context, 0, count / 2, 0);
    if (count - count / 2) b(context, count / 2, count, 1);
}

static void job(entry run, int reads, int count, const long *sizes) {
    void *arguments[64], *scratch = NULL;
    for (int n = 0; n <= count; n++) {
        size_t bytes = (size_t)(sizes[n] + 127) / 64 * 64;
        void *memory = aligned_alloc(64, bytes);
        if (!memory) exit(3);
        memset(memory, 0xFF, bytes);
        if (n < reads && fread(memory, 1, (size_t)sizes[n], in) != (size_t)sizes[n]) exit(4);
        if (n < count) arguments[n] = memory; else scratch = memory;
    }
    run(arguments, scratch, NULL, share_out);
    for (int n = reads; n < count; n++)
        if (fwrite(arguments[n], 1, (size_t)sizes[n], out) != (size_t)sizes[n]) exit(5);
    for (int n = 0; n < count; n++) free(arguments[n]);
    free(scratch);
}

int main(void) {
    in = fopen("in", "rb");
    out = fopen("out", "wb");
    if (!in || !out) return 2;
CALLS
    return fclose(out);
}
"""
