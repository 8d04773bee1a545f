"""AArch64 machines, as a kernel and its files would describe them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import tensorsmith as ts
from tensorsmith.backends.cpu import device
from tensorsmith.backends.cpu.arm import Core, core, core_name
from tensorsmith.backends.cpu.detect import Cache, arm_target
from tensorsmith.backends.cpu.target import CpuTarget

TRIPLE = "aarch64-unknown-linux-gnu"
PI_3 = 0xFF  # FP ASIMD EVTSTRM AES PMULL SHA1 SHA2 CRC32: words as Linux prints them
N1 = 0x119FFF  # besides: ATOMICS FPHP ASIMDHP CPUID ASIMDRDM LRCPC DCPOP ASIMDDP
V1 = N1 | 1 << 22 | 1 << 23  # SVE ASIMDFHM
V1_SECOND = 1 << 8 | 1 << 13 | 1 << 14  # FRINT I8MM BF16


def no_answer() -> int:
    raise AssertionError("asked for a length that there is not")


def has(found: Core) -> set[str]:
    return {f[1:] for f in found.features.split(",") if f[0] == "+"}


def test_features_are_those_of_the_kernel() -> None:
    assert has(core((PI_3, 0), no_answer, "cortex-a53")) == {"fp-armv8", "neon", "aes", "sha2", "crc"}
    found = core((N1, 0), no_answer, "neoverse-n1")
    assert has(found) == {"fp-armv8", "neon", "aes", "sha2", "crc", "lse", "fullfp16", "rdm", "rcpc", "dotprod"}
    assert "-sve" in found.features and found.scalable_bytes == 0
    found = core((V1, V1_SECOND), lambda: 32 | 1 << 17, "neoverse-v1")  # the flag says that children have the same length
    assert {"sve", "fp16fml", "fptoint", "i8mm", "bf16"} <= has(found) and "sve2" not in has(found)
    assert found.scalable_bytes == 32
    assert core((V1, 0), lambda: -22, "neoverse-v1").scalable_bytes == 0


def test_the_core_by_its_register_or_by_a_text(tmp_path: Path) -> None:
    folder = tmp_path / "cpu4" / "regs" / "identification"
    folder.mkdir(parents=True)
    text = tmp_path / "cpuinfo"
    text.write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\nCPU revision\t: 3\n")
    (folder / "midr_el1").write_text("0x00000000413fd0c1\n")
    assert core_name(4, tmp_path, text) == "neoverse-n1"
    assert core_name(0, tmp_path, text) == "cortex-a72"
    (folder / "midr_el1").write_text("0x00000000510f8000\n")  # of a maker that is not on the list
    assert core_name(4, tmp_path, text) == "generic"
    text.write_text("model name : AMD EPYC\n")
    assert core_name(0, tmp_path, text) == core_name(0, tmp_path, tmp_path / "missing") == "generic"


def target(name: str, words: tuple[int, int], length: int = 0, found: dict[int, Cache] | None = None) -> CpuTarget:
    return arm_target(TRIPLE, core(words, lambda: length, name), found or {}, 4, 4096)


def test_a_board_whose_cores_share_their_second_cache() -> None:
    pi = target("cortex-a53", (PI_3, 0), 0, {1: Cache(32 << 10, 4), 2: Cache(512 << 10, 16, 64, 4)})
    assert (pi.l1_bytes, pi.l1_ways, pi.l2_bytes, pi.l3_bytes) == (32 << 10, 4, 128 << 10, 512 << 10)
    assert pi.in_order and pi.fma_latency == 10 and pi.fmas_per_cycle == 1 and pi.cores == 4
    own = target("neoverse-n1", (N1, 0), 0, {2: Cache(1 << 20, 8), 3: Cache(4 << 20, 16, 64, 8)})
    assert (own.l1_bytes, own.l2_bytes, own.l3_bytes) == (64 << 10, 1 << 20, 4 << 20)  # the first is the named core's


def test_lines_and_pages_are_the_systems() -> None:
    found = arm_target(TRIPLE, Core("generic", "+neon", 0), {1: Cache(64 << 10, 4, 256)}, 2, 64 << 10)
    assert (found.line_bytes, found.page_bytes, found.cores, found.vector_bytes) == (256, 64 << 10, 2, 16)


def test_vectors_are_as_long_as_the_system_says() -> None:
    """In a system that allows only 128 bits of a V1, NEON has four units; with 256 bits SVE has two."""
    wide, narrow = target("neoverse-v1", (V1, V1_SECOND), 32), target("neoverse-v1", (V1, V1_SECOND), 16)
    assert (wide.vector_bytes, wide.fmas_per_cycle, wide.scalable_bytes) == (32, 2, 32)
    assert (narrow.vector_bytes, narrow.fmas_per_cycle, narrow.scalable_bytes) == (16, 4, 0)


@pytest.mark.parametrize(
    ("here", "wanted", "why"),
    [
        (target("cortex-a53", (PI_3, 0)), "cortex-a53", None),
        (target("cortex-a55", (N1, 0)), "cortex-a55", None),  # what only advises LLVM is no feature of a machine
        (target("neoverse-v1", (V1, V1_SECOND), 32), "neoverse-n1", None),
        (target("neoverse-v1", (V1, V1_SECOND), 32), "neoverse-v1", None),
        (target("cortex-a53", (PI_3, 0)), "neoverse-n1", "features fullfp16, dotprod, which this machine .cortex-a53."),
        (target("neoverse-v1", (V1, V1_SECOND), 64), "neoverse-v1", "vectors of 256 bits, this machine's have 512"),
        (target("neoverse-v1", (V1, V1_SECOND), 16), "neoverse-v1", "vectors of 256 bits, this machine's have at most 128"),
        (target("neoverse-n1", (N1, 0)), "znver4", "was compiled for znver4 .x86_64-unknown-linux-gnu., this is neoverse-n1"),
    ],
)
def test_what_runs_where(here: CpuTarget, wanted: str, why: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.Target, "native", lambda: here)
    device.why_not.cache_clear()
    found = device.why_not(ts.Target.named(wanted))
    device.why_not.cache_clear()
    assert found is None if why is None else found is not None and re.search(why, found), found


def test_a_feature_that_is_there_and_off_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    here = target("neoverse-n1", (N1, 0))
    without = replace(here, features=here.features.replace("+dotprod", "-dotprod"))
    monkeypatch.setattr(device.Target, "native", lambda: without)
    device.why_not.cache_clear()
    assert "dotprod" in str(device.why_not(ts.Target.named("neoverse-n1")))
    device.why_not.cache_clear()
