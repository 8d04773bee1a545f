"""The two printers: what C says is what LLVM says, and compilers take both."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.backends.gpu.drawn import KINDS, WORKLOADS, candidates, problems
from tests.backends.gpu.noticed import noticed
from tests.backends.gpu.ptx.machine import run
from tests.backends.gpu.ptx.memory import Memory
from tests.backends.gpu.ptx.parse import parse

import tensorsmith as ts
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.printers.c import source
from tensorsmith.backends.gpu.printers.dialects import DIALECTS
from tensorsmith.backends.gpu.printers.llvm import assembly
from tensorsmith.backends.gpu.printers.machines import MACHINES
from tensorsmith.backends.gpu.printers.names import entry
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.build import build_kernel
from tensorsmith.errors import UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.program.lower import lower
from tensorsmith.runtime.arguments import DTYPES

A100 = NAMED["a100"]
TINY = A100.with_facts(warp=4, threads=16)


def check_ptx(name: str, seed: int) -> None:
    """Runs a candidate's PTX in the interpreter of PTX, which finds races and accesses out of bounds too."""
    workload = WORKLOADS[name]
    (candidate,) = candidates(workload, 1, seed, TINY)
    made = Launches.from_bytes(build_kernel(candidate, TINY).code.data)
    inputs = random_inputs(workload, 0)
    memory = Memory()
    buffers = [memory.put(inputs[b.name]) for b in workload.inputs]
    buffers += [memory.room(workload.buffers[n].bytes) for n in workload.outputs]
    buffers += [memory.room(max(16, size)) for size in made.scratch]
    entries = parse(made.text)
    for one in made.launches:
        run(entries[one.kernel], memory, one.grid, one.block, [buffers[n] for n in one.arguments])
    got = []
    for n, output in enumerate(workload.outputs):
        b = workload.buffers[output]
        got.append(memory.get(buffers[len(workload.inputs) + n], DTYPES[b.dtype].type, int(np.prod(b.shape))).reshape(b.shape))
    assert problems(workload, evaluate(workload, inputs, precise=True), got) == []


@pytest.mark.gpu
def test_faults_of_every_kind_are_noticed() -> None:
    tried, missed = 0, []
    for name in KINDS:
        more, unseen = noticed(name, 1)
        tried, missed = tried + more, missed + unseen
    assert tried >= 50 and len(missed) <= 0.05 * tried, missed


@pytest.mark.parametrize("name", ["matmul-small", "softmax-small", "NRM-small"])
def test_ptx_is_right(name: str) -> None:
    check_ptx(name, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WORKLOADS)
def test_more_ptx_is_right(name: str, seed: int) -> None:
    """Of blocks of a few threads, in warps of four; 300 of usual ones are in `test_generated_ptx.py`."""
    check_ptx(name, seed)


@pytest.mark.parametrize("name", ["C2D-small", "layer_norm-small", "gelu-small"])
def test_llvm_takes_kernels_for_every_machine(name: str) -> None:
    (candidate,) = candidates(WORKLOADS[name], 1, 1)
    made = kernels(lower(candidate))
    for machine in MACHINES.values():
        assert "_kernel" in assembly(made, machine)


def test_results_are_in_registers() -> None:
    """No private array is left in memory, and a multiply-add takes its operands where it should."""
    (candidate,) = candidates(WORKLOADS["matmul-small"], 1, 7, A100)
    text = assembly(kernels(lower(candidate)), MACHINES["ptx"])
    assert ".local" not in text and "fma.rn.f32" in text and "bar.sync" in text


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("device", ["t4", "a100", "h100", "rtx5090"])
def test_ptxas_takes_the_code(device: str, tmp_path) -> None:
    target = NAMED[device]
    (candidate,) = candidates(WORKLOADS["ConvLayer-small"], 1, 2, target)
    made = Launches.from_bytes(build_kernel(candidate, target).code.data)
    (tmp_path / "kernel.ptx").write_text(made.text)
    command = ["ptxas", "-v", f"-arch={target.architecture}", str(tmp_path / "kernel.ptx"), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    used = [int(n) for n in re.findall(r"(\d+) bytes smem", done.stderr)]
    predicted = [one.shared_bytes for one in made.launches if one.shared_bytes]
    assert len(used) == len(predicted)
    assert all(
        0 <= more - less < 16 for less, more in zip(sorted(used), sorted(predicted))
    )  # the last array's end is not rounded up


CLANG = next(filter(None, map(shutil.which, ("clang", *(f"clang-{n}" for n in range(30, 14, -1))))), None)
ROOT = Path(__file__).parents[3]
HIP_HEADERS = [p for p in (ROOT / "build/hip/usr/include", Path("/opt/rocm/include"), Path("/usr/include"))
               if (p / "hip/hip_runtime.h").exists()]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*KINDS, "gelu-small"])
def test_clang_takes_hip(name: str, tmp_path) -> None:
    """With AMD's headers, for its GPUs; and what we write for their driver has the same kernels."""
    target = NAMED["mi250x"]
    (candidate,) = candidates(WORKLOADS[name], 1, 3, target)
    made = kernels(lower(candidate))
    (tmp_path / "kernel.hip").write_text(source(made, DIALECTS["hip"]))
    command = [CLANG, "-x", "hip", f"--offload-arch={target.architecture}", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-w",
               "-D__HIP_PLATFORM_AMD__", "-I", str(HIP_HEADERS[0]), "-O1", "-S", "-o", str(tmp_path / "kernel.s"),
               str(tmp_path / "kernel.hip")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs, ours = (tmp_path / "kernel.s").read_text(), assembly(made, MACHINES["amdgcn"], target.architecture)
    for kernel in made:
        assert all(f".amdhsa_kernel {entry(kernel.name)}\n" in text for text in (theirs, ours))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["matmul-small", "softmax-small", "C2D-small", "argmax-small"])
def test_metal_is_read_as_cpp_for_opencl(name: str, tmp_path) -> None:
    """Apple's compiler is not here; clang checks all but the words that are Metal's own, scopes of memory too."""
    (candidate,) = candidates(WORKLOADS[name], 1, 3)
    check_metal(source(kernels(lower(candidate)), DIALECTS["metal"]), tmp_path)


@pytest.mark.gpu
def test_what_clang_notices_in_metal(tmp_path) -> None:
    """So that silence means something; and halves, which no small workload has."""
    a, b = ts.placeholder((16, 16), "f16", name="A"), ts.placeholder((16, 16), "f16", name="B")
    k = ts.reduce_axis(16, name="k")
    c = ts.compute((16, 16), lambda i, j: ts.sum(ts.cast("f32", a[i, k]) * ts.cast("f32", b[k, j]), axis=k), name="C")
    d = ts.compute((16, 16), lambda i, j: ts.cast("f16", ts.exp(c[i, j])), name="D")
    text = ts.compile([a, b, d], target="opencl").source("metal")
    check_metal(text, tmp_path)
    for wrong in (text.replace("(threadgroup", "(device"), text.replace("exp(", "expo("), text.replace("barrier(", "barriers(")):
        assert wrong != text
        with pytest.raises(AssertionError, match="error:"):
            check_metal(wrong, tmp_path)


def check_metal(text: str, folder: Path) -> None:
    words = (Path(__file__).parent / "metal_words.h").read_text()
    (folder / "metal_stdlib").write_text(words)
    (folder / "kernel.clcpp").write_text(text)
    command = [str(CLANG), "-cl-std=clc++2021", "-cl-no-stdinc", "-target", "spir64", "-fsyntax-only", "-Wno-unknown-attributes",
               "-I", str(folder), str(folder / "kernel.clcpp")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "function", "message"),
    [("f64", "exp", "C computes in f64, which 'metal' does not have"), ("f32", "erf", "there is no erf in 'metal'")],
)
def test_what_metal_has_not(kind: str, function: str, message: str) -> None:
    a = ts.placeholder((16,), kind, name="A")
    kernel = ts.compile([a, ts.compute((16,), lambda i: getattr(ts, function)(a[i]), name="C")], target="opencl")
    with pytest.raises(UserError, match=message):
        kernel.source("metal")


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", KINDS)
def test_nvcc_takes_cuda_c(name: str, tmp_path) -> None:
    (candidate,) = candidates(WORKLOADS[name], 1, 3, A100)
    (tmp_path / "kernel.cu").write_text(source(kernels(lower(candidate)), DIALECTS["cuda"]))
    command = ["nvcc", "-arch=sm_80", "-cubin", "-o", str(tmp_path / "kernel.cubin"), str(tmp_path / "kernel.cu")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
