"""What NVIDIA's assembler says of kernels; where it is not installed, what reads its words is tested alone."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from tests.backends.gpu import products
from tests.backends.gpu.drawn import candidates
from tests.backends.gpu.ptx import from_llvm

from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.backends.gpu.cuda.ptxas import Compiled
from tensorsmith.backends.gpu.features import compiled
from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.generate import generate
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.prior import estimated_seconds
from tensorsmith.errors import Refusal
from tensorsmith.program.lower import lower

needs_ptxas = pytest.mark.skipif(ptxas.found() is None, reason="ptxas is not installed")

SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compile time = 3.1 ms
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


def test_what_it_says_is_read() -> None:
    assert ptxas.read(SAID) == {"first": Compiled(40, 2048, 16, 12), "second": Compiled(8, 0, 0, 0)}
    assert ptxas.read("") == {}


def test_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "found", lambda: None)
    ptxas.knows.cache_clear()
    assert not ptxas.knows("sm_80")
    with pytest.raises(Refusal, match="not on PATH"):
        ptxas.compiled("", "sm_80")
    ptxas.knows.cache_clear()


def test_one_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*arguments: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("ptxas", 120)

    monkeypatch.setattr(subprocess, "run", late)
    monkeypatch.setattr(ptxas, "found", lambda: "ptxas")
    with pytest.raises(Refusal, match="has not ended after 120 seconds"):
        ptxas.compiled("", "sm_80")


@pytest.mark.gpu
@needs_ptxas
@pytest.mark.parametrize("target", ["t4", "a100", "h100", "rtx5090"])
def test_our_kernels_are_taken(target: str) -> None:
    """For compute capability 7.5, 8.0, 9.0 and 12.0: shared memory as predicted, no spills, registers about as predicted."""
    t = NAMED[target]
    made = products.candidate(256, 256, 64, vthread=(2, 1), thread=(8, 16), tile=(4, 4), deep=(2, 4), fetch=(2, 4))
    launches = Launches.from_bytes(generate(lower(made), t).code.data)
    (found,) = ptxas.compiled(launches.text, t.architecture).values()
    (features,) = extract_rows([(made.sketch, made.decisions)], t).matrices()
    assert found.shared_bytes == launches.launches[0].shared_bytes == round(float(features.raw("shared_bytes")[0, 0]))
    assert found.spilled_bytes == 0 and found.registers == pytest.approx(float(features.raw("registers")[0, 0]), rel=0.4)


@pytest.mark.gpu
@needs_ptxas
def test_registers_and_shared_memory_are_as_predicted() -> None:
    """Of random candidates of a large product: registers to a fifth in the median, shared memory but for rounding, no spills."""
    t = NAMED["a100"]
    apart = []
    for made in candidates(products.workload(1024, 1024, 1024), 6, 1, t):
        launches = Launches.from_bytes(generate(lower(made), t).code.data)
        (features,) = extract_rows([(made.sketch, made.decisions)], t).matrices()
        for n, found in enumerate(ptxas.compiled(launches.text, t.architecture).values()):
            predicted = float(features.raw("registers")[0, n])
            apart.append(abs(predicted / found.registers - 1))
            assert abs(found.shared_bytes - float(features.raw("shared_bytes")[0, n])) < 16 and not found.spilled_bytes
    assert np.median(apart) < 0.2, apart


@pytest.mark.gpu
@needs_ptxas
def test_what_it_does_not_take() -> None:
    assert ptxas.knows("sm_80") and not ptxas.knows("sm_3")
    with pytest.raises(Refusal, match="ptxas"):
        ptxas.compiled(from_llvm.ptx(from_llvm.product(32, 64, 16)).replace("fma.rn.f32", "fma.xx.f32"), "sm_80")


def test_what_is_compiled_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """More registers mean fewer blocks at once, and spills cost; without the assembler the estimate is that of the features."""
    t = NAMED["a100"]
    made = products.candidate(4096, 4096, 512, thread=(16, 16), tile=(8, 8), deep=(2, 4), fetch=(4, 4))
    monkeypatch.setattr(ptxas, "knows", lambda architecture: False)
    plain = compiled.estimated_candidate(made, t)
    assert plain == pytest.approx(estimated_seconds(extract_rows([(made.sketch, made.decisions)], t), t)[0], rel=1e-6)
    monkeypatch.setattr(ptxas, "knows", lambda architecture: architecture == "sm_80")

    def said(registers: int, spilled: int) -> float:
        def compiled_so(text: str, architecture: str) -> dict[str, Compiled]:
            return dict.fromkeys(re.findall(r"\.entry (\w+)", text), Compiled(registers, 8192, 0, spilled))

        monkeypatch.setattr(ptxas, "compiled", compiled_so)
        return compiled.estimated_candidate(made, t)

    assert said(255, 0) > said(120, 0) and said(255, 400) > 1.2 * said(255, 0)


def test_what_cannot_be_built_is_refused() -> None:
    made = products.candidate(256, 256, 64, thread=(64, 64))
    with pytest.raises(Refusal, match="too many threads"):
        compiled.estimated_candidate(made, NAMED["a100"])
