"""The explanation says what the numbers say."""

from __future__ import annotations

from tests.backends.cpu.features.test_golden import candidate, matmul
from tests.backends.cpu.machines import target

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.explain import explain
from tensorsmith.ops import catalogue
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.nest import Nest


def test_a_packed_register_tile() -> None:
    nest = Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1", packed=("B",))
    c = candidate(matmul(64, 64, 64, constant=True), nest, C__i__1=4, C__j__1=32, C__parallel=1, C__unroll=2)
    text = explain(c, target())
    for expected in (
        "4 i x 32 j (lanes): 8 vectors, computed 32 times, 64 steps each",
        "registers  11 of 32",
        "8 vector operations, 6 loads (2 vector, 4 broadcast)",
        "8 independent results, enough",
        "100% of the lanes",
        "C.i.0 x 16 (parallel): a step touches 18.0 KiB, fits L1",
        "64.0 KiB into L1, 0 B into L2, 0 B into L3",
        "16 steps on 2 cores, 100% of their time used",
    ):
        assert expected in text, text


def test_trouble_is_named() -> None:
    nest = Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1")
    text = explain(candidate(matmul(64, 64, 1024), nest, C__i__1=16, C__j__1=48, C__parallel=0), target())
    assert "registers  52 of 32, 20 spilled" in text  # 16 x 3 results, 3 vectors of B, one broadcast of A
    assert "16 lines of a step in one L1 set of 8 ways" in text
    assert "parallel   no" in text


def test_every_statement_appears() -> None:
    w = catalogue.get("TBS-1-b1").workload()
    c = default_candidate(w, target())
    text = explain(c, target())
    assert all(f"\n{stage.name}: " in text for stage in c.sketch.rewritten.stages)
    assert explain(plain_candidate(catalogue.get("matmul-small").workload()), target()).startswith("expected: ")
