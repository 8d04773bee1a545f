"""Targets: by name, in JSON of any day, and what is no target."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorsmith as ts
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import UserError
from tensorsmith.runtime.file import read
from tensorsmith.targets.target import Target, given_or_native, target_differences

#: as a record file and a saved executable had it before facts had defaults and forms a version
OLDER = {
    "triple": "x86_64-unknown-linux-gnu", "cpu": "znver3", "features": "+avx2,+fma", "vector_bytes": 32, "vector_registers": 16,
    "l1_bytes": 32768, "l1_ways": 8, "l2_bytes": 524288, "l3_bytes": 33554432, "line_bytes": 64, "cores": 2,
}  # fmt: skip


def test_forms_of_older_and_of_newer_versions():
    target = Target.from_json(OLDER)
    assert isinstance(target, CpuTarget) and target.cpu == "znver3" and target.cores == 2
    assert target.fma_latency == 4 and target.fmas_per_cycle == 2 and not target.in_order  # what it was taken for then
    less = {name: value for name, value in OLDER.items() if name != "l1_ways"}
    assert Target.from_json(less) == target
    more = {**target.to_json(), "version": 7, "l4_bytes": 1 << 30}
    assert Target.from_json(more) == target


def test_keys_are_what_records_are_found_by():
    assert Target.from_json(OLDER).key == "x86_64/znver3/v32x16/c2"
    assert dataclasses.replace(Target.from_json(OLDER), in_order=True, fma_latency=9).key == "x86_64/znver3/v32x16/c2"


@given(st.builds(CpuTarget, st.text(), st.text(), st.text(), *[st.integers(0, 1 << 40)] * 11, st.booleans()))
def test_any_target_comes_back_from_json(target):
    assert Target.from_json(target.to_json()) == target


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("native", "not an object"),
        (None, "not an object"),
        ({}, "triple is None"),
        ({**OLDER, "cores": "2"}, "cores is '2'"),
        ({**OLDER, "cores": True}, "cores is True"),
        ({**OLDER, "in_order": 1}, "in_order is 1"),
        ({**OLDER, "cpu": None}, "cpu is None"),
        ({**OLDER, "kind": 3}, "kind is 3"),
        ({**OLDER, "kind": "abacus"}, "no backend for targets of kind 'abacus'; known are cpu"),
    ],
)
def test_what_is_no_target(form, message):
    with pytest.raises(UserError, match=message):
        Target.from_json(form)


def test_by_name():
    names = ts.targets()
    assert {"x86-64-v2", "x86-64-v3", "x86-64-v4", "znver3", "znver4", "skylake-avx512", "sapphirerapids"} <= names.keys()
    assert {"cortex-a53", "cortex-a55", "cortex-a72", "cortex-a76", "neoverse-n1", "neoverse-v1", "neoverse-v2"} <= names.keys()
    assert {"a64fx", "apple-m1", "rv64gcv", "wasm32", "wasm32-relaxed"} <= names.keys()
    assert [names[n].name for n in ("cortex-a53", "rv64gcv", "wasm32")] == ["cortex-a53", "riscv64", "wasm32"]
    assert ts.Target.named("znver4") == names["znver4"] == given_or_native("znver4")
    assert ts.Target.named("znver4", cores=3).cores == 3
    assert given_or_native(None) == given_or_native("native") == ts.Target.native()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: ts.Target.named("znver44"), "no target 'znver44', did you mean 'znver4'"),
        (
            lambda: ts.Target.named("a toaster"),
            "no target 'a toaster'; `ts.targets\\(\\)` lists all machines that can be generated for, of .*aarch64",
        ),
        (lambda: ts.Target.named("znver4", coers=3), "znver4 has no fact 'coers'; it has triple, cpu"),
        (lambda: ts.Target.native("abacus"), "no backend for targets of kind 'abacus'"),
        (lambda: given_or_native(3), "target is 3; give a tensorsmith.Target"),
    ],
)
def test_names_that_there_are_not(use, message):
    with pytest.raises(UserError, match=message):
        use()


def test_differences():
    here = Target.from_json(OLDER)
    assert target_differences(here, dataclasses.replace(here, cores=4, l2_bytes=7)) == ["cores 2 != 4"]


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "znver3", "znver4", "skylake-avx512", "sapphirerapids", "neoverse-n1"])
def test_compiled_for_a_named_machine(name, tmp_path):
    """On any machine: the code uses the registers of the named one, and can be printed and saved."""
    a, b = ts.placeholder((32, 48), name="A"), ts.placeholder((48, 64), name="B", constant=True)
    k = ts.reduce_axis(48, name="k")
    kernel = ts.compile([a, b, ts.compute((32, 64), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")], target=name)
    assert kernel.network.target == ts.targets()[name] and kernel.network.kernels[0].schedule == "default"
    wanted = {16: "xmm", 32: "ymm", 64: "zmm"}[kernel.network.target.vector_bytes] if name[0] != "n" else "fmla"
    wider = {16: "ymm", 32: "zmm"}.get(kernel.network.target.vector_bytes)
    assert wanted in kernel.assembly and (wider is None or wider not in kernel.assembly)
    assert "define void @entry" in kernel.llvm_ir and "C[" in kernel.program
    kernel.bind(B=np.zeros((48, 64), np.float32)).save(tmp_path / "kernel.tsm")
    assert read(tmp_path / "kernel.tsm").target == kernel.network.target
