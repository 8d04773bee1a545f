"""PoCL's name for a CPU that its compiler does not know is replaced, and nothing else is touched."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from tensorsmith.backends.gpu import pocl
from tensorsmith.backends.gpu.opencl import _reason

NEW = "OpenCL 3.0 PoCL 3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6"


def device(name: bytes, version: str = NEW) -> tuple[Any, Any]:
    """A stand-in with PoCL's field, and the memory behind it."""
    text, record = ctypes.create_string_buffer(name), (ctypes.c_uint64 * 100)()
    record[pocl._FIELD // 8] = ctypes.addressof(text)
    made = SimpleNamespace(int_ptr=ctypes.addressof(record), platform=SimpleNamespace(version=version))
    return made, (record, text)


def name_in(record: Any) -> bytes:
    return ctypes.string_at(record[pocl._FIELD // 8])


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({"avx2": True, "fma": True, "bmi2": True}, b"haswell"),
        ({"sse2": True, "avx2": False}, b"x86-64"),
        (dict.fromkeys(("avx2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), True), b"skylake-avx512"),
    ],
)
def test_an_unknown_cpu_gets_the_name_of_an_older_one(
    features: dict[str, bool], name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pocl.llvm, "get_host_cpu_features", lambda: features)
    made, (record, _text) = device(b"generic")
    before = list(record)
    assert pocl.name_cpu(made) and name_in(record) == name
    assert [n for n, (a, b) in enumerate(zip(before, record)) if a != b] == [pocl._FIELD // 8]


@pytest.mark.parametrize(("name", "version"), [(b"znver3", NEW), (b"generic2", NEW), (b"generic", "OpenCL 3.0 PoCL 6.0")])
def test_what_is_known_or_of_another_version_is_left_alone(name: bytes, version: str) -> None:
    made, (record, _text) = device(name, version)
    assert not pocl.name_cpu(made) and name_in(record) == name


def test_a_record_of_another_layout_is_left_alone() -> None:
    made, (record, _text) = device(b"generic")
    record[pocl._FIELD // 8] = 12345  # no address
    assert not pocl.name_cpu(made) and record[pocl._FIELD // 8] == 12345


def test_the_compilers_own_error_is_the_reason() -> None:
    log = "clBuildProgram failed: BUILD_PROGRAM_FAILURE\n\nBuild on <device>:\n\nerror: unknown target CPU 'generic'\nfailed"
    assert _reason(RuntimeError(log)) == "error: unknown target CPU 'generic'"
    assert _reason(RuntimeError("INVALID_VALUE\nmore")) == "INVALID_VALUE" and _reason(RuntimeError("")) == "RuntimeError('')"
