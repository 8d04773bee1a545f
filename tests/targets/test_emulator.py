"""Whether a machine runs this process: what the system says of its program, of its name and of the processor."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.targets.emulator import emulator

X86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpuid level\t: 16\n"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n"


def system(folder: Path, cpuinfo: str, program: str, name: str) -> Path:
    """What `/proc` says. The file of the program is not there, as in a container whose emulator is the host's."""
    for place in ("thread-self", "self"):
        (folder / place).mkdir(parents=True)
    (folder / "thread-self" / "exe").symlink_to(f"/usr/bin/{program}")
    (folder / "self" / "comm").write_text(f"{name}\n")
    (folder / "cpuinfo").write_text(cpuinfo)
    return folder


@pytest.mark.parametrize(
    ("cpuinfo", "program", "name", "architecture", "found"),
    [
        (X86, "python3.11", "python3", "x86_64", ""),
        (ARM, "python3.11", "python3", "aarch64", ""),
        ("", "python3.11", "python3", "aarch64", ""),
        (ARM, "qemu-aarch64-static", "python3", "aarch64", "qemu-aarch64-static"),
        (ARM, "python3.11", "qemu-aarch64-st", "aarch64", "qemu-aarch64-st"),
        (X86, "python3.11", "python3", "aarch64", "an emulator of aarch64 on x86"),
        (ARM, "python3.11", "python3", "x86_64", "an emulator of x86_64 on arm"),
        ("model name\t: QEMU TCG CPU version 2.5+\n" + X86, "python3.11", "python3", "x86_64", "qemu"),
    ],
)
def test_an_emulator_is_found(tmp_path: Path, cpuinfo: str, program: str, name: str, architecture: str, found: str) -> None:
    assert emulator(system(tmp_path / "proc", cpuinfo, program, name), architecture) == found


def test_where_nothing_is_said_there_is_none(tmp_path: Path) -> None:
    assert emulator(tmp_path / "missing", "aarch64") == ""


def test_this_machine_is_no_emulator() -> None:
    """The tests run on machines; `make test-arm` is where one of them does not."""
    assert emulator() == ""


def test_times_under_an_emulator_are_not_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.import_module("tensorsmith.tune"), "emulator", lambda: "qemu")
    a = ts.placeholder((8,), name="A")
    with pytest.raises(UserError, match="times under an emulator mean nothing, so none are stored: leave out database"):
        ts.tune([a, ts.compute((8,), lambda i: a[i] + 1.0, name="B")], trials=1, database=tmp_path / "tune.db")
    assert not (tmp_path / "tune.db").exists()
