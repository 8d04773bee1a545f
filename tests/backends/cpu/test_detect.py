"""The CPU that is here, and the caches that Linux tells of."""

from __future__ import annotations

from pathlib import Path

import tensorsmith as ts
from tensorsmith.backends.cpu.detect import Cache, caches, rates
from tensorsmith.backends.cpu.device import why_not
from tensorsmith.backends.cpu.named import NAMED
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.targets.host import thread_count


def test_this_machine():
    here = ts.Target.native()
    assert isinstance(here, CpuTarget) and here is ts.Target.native()
    assert here.cores == thread_count() and here.vector_bytes in (16, 32, 64) and here.vector_registers in (16, 32)
    assert here.l1_bytes < here.l2_bytes < here.l3_bytes
    assert why_not(here) is None


def test_a_known_processor_has_its_rates():
    """Those of the named target, if vectors are as wide; half as many of vectors twice as wide; others have the usual ones."""
    here = ts.Target.native()
    known = NAMED.get(here.cpu)
    if known is not None and known.vector_bytes == here.vector_bytes:
        assert (here.fma_latency, here.fmas_per_cycle) == (known.fma_latency, known.fmas_per_cycle)
    assert rates("znver4", 64) == {"fma_latency": 4, "fmas_per_cycle": 1}
    assert rates("znver4", 32) == {"fma_latency": 4, "fmas_per_cycle": 2}
    assert rates("x86-64-v2", 32) == {"fma_latency": 7, "fmas_per_cycle": 1}
    assert rates("8086", 64) == {}


def index(folder: Path, number: int, **facts: str) -> None:
    (folder / f"index{number}").mkdir()
    for name, text in facts.items():
        (folder / f"index{number}" / name).write_text(text + "\n")


def test_caches(tmp_path):
    index(tmp_path, 0, level="1", type="Data", size="48K", ways_of_associativity="12")
    index(tmp_path, 1, level="1", type="Instruction", size="32K", ways_of_associativity="8")
    facts = {"coherency_line_size": "128", "shared_cpu_list": "0-2,5"}
    index(tmp_path, 2, level="2", type="Unified", size="2M", ways_of_associativity="0", **facts)
    index(tmp_path, 3, level="3", type="Unified", size="much", ways_of_associativity="16")
    index(tmp_path, 4, level="4")
    assert caches(tmp_path) == {1: Cache(48 << 10, 12, 64, 1), 2: Cache(2 << 20, 8, 128, 4)}
    assert caches(tmp_path / "missing") == {}
