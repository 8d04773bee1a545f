"""What the system says of the machine that a node runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorsmith.measure.fleet.health import Health, emulator, health

X86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpuid level\t: 16\n"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n"


def machine(folder: Path, cpuinfo: str = "", program: str = "python3.11") -> Path:
    (folder / "thread-self").mkdir(parents=True)
    (folder / program).touch()
    (folder / "thread-self" / "exe").symlink_to(folder / program)
    (folder / "cpuinfo").write_text(cpuinfo)
    return folder


def test_load_and_temperature(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("1.25 0.80 0.60 2/300 4711\n")
    for n, text in enumerate(("48500\n", "61000\n", "-273000\n", "no number")):
        (tmp_path / f"thermal_zone{n}").mkdir()
        (tmp_path / f"thermal_zone{n}" / "temp").write_text(text)
    assert health(tmp_path, tmp_path) == Health(1.25, 61.0)
    assert health(tmp_path / "nothing", tmp_path / "nothing") == Health(None, None)


@pytest.mark.parametrize(
    ("cpuinfo", "program", "architecture", "found"),
    [
        (X86, "python3.11", "x86_64", ""),
        (ARM, "python3.11", "aarch64", ""),
        ("", "python3.11", "aarch64", ""),
        (ARM, "qemu-aarch64-static", "aarch64", "qemu-aarch64-static"),
        (X86, "python3.11", "aarch64", "an emulator of aarch64 on x86"),
        (ARM, "python3.11", "x86_64", "an emulator of x86_64 on arm"),
        ("model name\t: QEMU TCG CPU version 2.5+\n" + X86, "python3.11", "x86_64", "qemu"),
    ],
)
def test_an_emulator_is_found(tmp_path: Path, cpuinfo: str, program: str, architecture: str, found: str) -> None:
    assert emulator(machine(tmp_path / "proc", cpuinfo, program), architecture) == found


def test_this_machine_is_no_emulator() -> None:
    """The tests run on machines; `make test-arm` is where one of them does not."""
    assert emulator() == ""
