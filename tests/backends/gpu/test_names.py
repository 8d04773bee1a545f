"""Names of tensors and stages in kernels for GPUs: whatever they are, compilers take the texts, and nothing of a name is code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backends.gpu.drawn import candidates
from tests.backends.gpu.ptx.parse import parse
from tests.hostile import NAMES

import tensorsmith as ts
from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.printers.c import source
from tensorsmith.backends.gpu.printers.dialects import DIALECTS
from tensorsmith.backends.gpu.printers.llvm import assembly, ir
from tensorsmith.backends.gpu.printers.machines import MACHINES
from tensorsmith.backends.gpu.printers.names import array_name, entry, variable_name
from tensorsmith.backends.gpu.simt.ir import Kernel
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower

WORDS = Path(__file__).parent / "words_of_c.h"
KINDS = {"opencl": "AS_OPENCL", "cuda": "AS_CUDA", "hip": "AS_CUDA", "metal": "AS_METAL"}


def workload(names: list[str]) -> Workload:
    """A product with something behind it; the names are those of its inputs, its stages and its output."""
    a, b, c, d = names
    A, B = ts.placeholder((8, 16), name=a), ts.placeholder((16, 8), name=b)
    k = ts.reduce_axis(16, name="k")
    C = ts.compute((8, 8), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name=c)
    return ts.workload([A, B, ts.compute((8, 8), lambda i, j: ts.maximum(C[i, j], 0.0), name=d)])


@pytest.fixture(scope="module")
def made() -> list[list[Kernel]]:
    """Kernels with every name in every place."""
    found = []
    for n in range(len(NAMES)):
        names = [NAMES[(n + step) % len(NAMES)] for step in range(4)]
        (candidate,) = candidates(workload(names), 1, 1, NAMED["a100"])
        found.append(kernels(lower(candidate)))
    return found


def numbered(text: str, n: int, many: list[Kernel]) -> str:
    """The text with names of kernels that differ from those of other texts, so that all of them go into one file."""
    for kernel in many:
        text = re.sub(rf"\b{entry(kernel.name)}\b", f"k{n}_{entry(kernel.name)}", text)
    return text


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiler_takes_c(kind: str, made: list[list[Kernel]], tmp_path: Path) -> None:
    """Words of the dialect are defined away; the rest is grammar, and names that are there once and where they are used."""
    dialect = DIALECTS[kind]
    texts = []
    for n, many in enumerate(made):
        text = source(many, dialect)
        assert text.isascii() and "pwn(" not in text
        text = "\n".join(line for line in text.splitlines() if not line.startswith(("#include", "using namespace")))
        texts.append(f"namespace n{n} {{\n{numbered(text, n, many)}\n}}")
    (tmp_path / "kernels.cpp").write_text("\n".join([WORDS.read_text(), *texts]))
    command = ["g++", "-std=c++17", f"-D{KINDS[kind]}", "-fsyntax-only", "-w", str(tmp_path / "kernels.cpp")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def test_llvm_takes_it_for_every_machine(made: list[list[Kernel]]) -> None:
    for n, many in enumerate(made):
        for machine in MACHINES.values():
            assert re.fullmatch(r"[\x20-\x7e\n]*", ir(many, machine))
            if n % 16 == 0 or (n % 4 == 0 and machine.name == "ptx"):  # so that each name is in some of what LLVM is given
                text = assembly(many, machine)
                assert re.fullmatch(r"[\x20-\x7e\n\t]*", text) and "pwn(" not in text
                assert machine.name != "ptx" or set(parse(text)) == {entry(k.name) for k in many}


@pytest.mark.skipif(ptxas.found() is None, reason="ptxas is not installed")
def test_ptxas_takes_it(made: list[list[Kernel]]) -> None:
    for many in made[::16]:
        assert ptxas.compiled(assembly(many, MACHINES["ptx"]), NAMED["a100"].architecture)


@pytest.mark.parametrize("names", [NAMES[n : n + 4] for n in (0, 9, 30, 44)] + [("block", "thread", "A.buffer", "oid")])
def test_opencl_runs_it(names: tuple[str, ...]) -> None:
    found = workload(list(names))
    kernel = ts.compile(found, target="opencl")
    a, b = (x.astype(np.float32) for x in np.random.default_rng(0).random((2, 8, 16)))
    np.testing.assert_allclose(kernel(a, b.reshape(16, 8)), a @ b.reshape(16, 8), rtol=1e-5)


@given(st.text(st.sampled_from("ab_.*2é"), max_size=8) | st.text(), st.text(st.sampled_from("ab_.*2é"), max_size=8) | st.text())
def test_identifiers_differ_where_names_do(one: str, other: str) -> None:
    for name in (array_name, variable_name, entry):
        assert re.fullmatch(r"(a_|v_|ts_)[A-Za-z0-9_]*", name(one)) and len(name(one)) < 100
        assert (name(one) == name(other)) == (one == other)
    assert len({array_name(one), variable_name(one), entry(one)}) == 3


def test_identifiers_stay_recognisable() -> None:
    assert [variable_name("C.i_0.1"), array_name("image"), entry("conv2d")] == ["v_C_i__0_1", "a_image", "ts_conv2d_kernel"]
