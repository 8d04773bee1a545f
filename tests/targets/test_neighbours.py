"""Who else uses the cores: what the system counts, when it is said, and that nothing fails where it counts nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorsmith.targets import neighbours
from tensorsmith.targets.neighbours import Measuring, Reading, Watch, announced, complaints, measuring, read

TICK = 1.0 / os.sysconf("SC_CLK_TCK")


def proc_stat(cpus: list[list[int]]) -> str:
    rows = [f"cpu{n} {' '.join(map(str, row))}" for n, row in enumerate(cpus)]
    return "\n".join(["cpu  1 2 3 4 5 6 7 8 0 0", *rows, "intr 1 2 3", "ctxt 4"]) + "\n"


def process(proc: Path, number: int, parent: int, *ticks: int, name: str = "python") -> None:
    folder = proc / str(number)
    folder.mkdir()
    before = "0 " * 9  # group, session, terminal and the like
    (folder / "stat").write_text(f"{number} ({name}) S {parent} {before}{' '.join(map(str, ticks))} 20 0\n")


def test_what_the_system_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_allowed", lambda: {0, 2})
    (tmp_path / "stat").write_text(proc_stat([[10, 1, 5, 900, 9, 2, 3, 4], [9999] * 8, [20, 0, 0, 900, 0, 0, 0, 6]]))
    process(tmp_path, os.getpid(), 1, 10, 5, 3, 2)
    process(tmp_path, 70001, os.getpid(), 100, 20, 0, 0, name="a (strange) name) S 1")
    process(tmp_path, 70002, 70001, 1000, 200, 0, 0)
    process(tmp_path, 70003, 1, 5000, 5000, 5000, 5000)  # nobody of ours
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 5\nnr_throttled 2\nthrottled_usec 2500000\n")
    found = read(tmp_path, tmp_path)
    assert (found.cpus, found.throttled) == (2, 2.5)
    assert found.busy == pytest.approx((10 + 1 + 5 + 2 + 3 + 20) * TICK) and found.stolen == pytest.approx(10 * TICK)
    assert found.ours == pytest.approx((20 + 120 + 1200) * TICK)


def test_a_control_group_of_the_first_version(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:cpu,cpuacct:/docker/abc\n")
    (tmp_path / "cpu,cpuacct").mkdir()
    (tmp_path / "cpu,cpuacct" / "cpu.stat").write_text("nr_periods 8\nnr_throttled 2\nthrottled_time 1500000000\n")
    assert read(tmp_path, tmp_path).throttled == 1.5


@pytest.mark.parametrize("content", [None, "", "cpu0 1 2\n", "cpu0 a b c d e f g h\n"])
def test_where_the_system_says_nothing(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "stat").write_text(content)
    found = read(tmp_path, tmp_path / "nowhere")
    assert (found.busy, found.ours, found.stolen, found.throttled) == (None, None, None, None)
    assert complaints(found, Reading(found.moment + 10.0, found.cpus), 2) == [] and measuring(tmp_path) == []


def test_this_machine_can_be_read() -> None:
    found = read()
    assert found.cpus >= 1 and (found.ours is None or found.ours > 0)


START = Reading(100.0, 2, busy=50.0, ours=20.0, stolen=1.0, throttled=0.0)


def after(seconds: float = 10.0, **more: float) -> Reading:
    """So many seconds later, with as much more of each count."""
    now = {name: getattr(START, name) + more.get(name, 0.0) for name in ("busy", "ours", "stolen", "throttled")}
    return Reading(START.moment + seconds, START.cpus, **now)


def test_our_own_work_is_no_complaint() -> None:
    assert complaints(START, after(busy=20.0, ours=20.0), 2) == []
    assert complaints(START, after(busy=20.0, ours=18.0), 2) == []  # the system's two counts differ a little
    assert complaints(START, after(busy=20.0, ours=21.0), 2) == []


def test_others_on_the_cores() -> None:
    assert complaints(START, after(busy=20.0, ours=8.0), 2) == ["other programs: 1.2 of the 2 cores"]
    assert complaints(START, after(busy=12.0, ours=8.0), 2) == ["other programs: 0.4 of the 2 cores"]
    assert complaints(START, after(busy=12.0, ours=8.0), 1) == []  # there is a core for each
    assert complaints(START, after(0.1, busy=0.2, ours=0.0), 2) == []  # too short to tell
    many = Reading(110.0, 64, busy=50.0 + 20.0, ours=20.0)
    assert complaints(START, many, 64) == []  # 2 of 64 cores: what any system does


def test_a_host_and_a_limit() -> None:
    assert complaints(START, after(stolen=0.9), 2) == []
    assert complaints(START, after(stolen=4.0), 2) == ["the host of this virtual machine: 20% of its cores' time"]
    assert complaints(START, after(throttled=0.3), 2) == []
    assert complaints(START, after(throttled=5.0), 2) == ["the CPU limit of this container: stopped for 25% of the time"]


def watch(monkeypatch: pytest.MonkeyPatch, readings: list[Reading], moments: list[float] | None = None) -> tuple[Watch, list[str]]:
    said: list[str] = []
    coming = iter(readings)
    monkeypatch.setattr(neighbours, "read", lambda: next(coming))
    clock: Iterator[float] = iter(moments or [])
    return Watch(said.append, 2, lambda: next(clock)), said


def test_it_is_said_once_at_the_start_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, later = after(1.5, busy=3.0), Reading(200.0, 2, busy=250.0, ours=20.0, stolen=1.0, throttled=0.0)
    found, said = watch(monkeypatch, [START, busy, later], [100.5, 101.5])
    found.look()
    assert said == []  # too early
    found.look()
    assert said == ["the machine is busy (other programs: 2.0 of the 2 cores). Times that are measured now are less sure"]
    found.look()
    found.look()
    assert len(said) == 1
    found.conclude()
    assert len(said) == 2 and said[1].startswith("the machine was busy meanwhile (other programs: 2.0 of the 2 cores).")


def test_a_quiet_machine_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    found, said = watch(monkeypatch, [START, after(1.5, busy=3.0, ours=3.0), after(9.0, busy=18.0, ours=18.0)], [101.5])
    found.look()
    found.conclude()
    assert said == []


def test_what_comes_later_is_said_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    found, said = watch(monkeypatch, [START, after(1.5, busy=3.0, ours=3.0), after(9.0, busy=18.0, ours=8.0)], [101.5])
    found.look()
    assert said == []
    found.conclude()
    assert len(said) == 1 and "the machine was busy meanwhile" in said[0]


def test_another_measurement_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "measuring", lambda: [Measuring("tuning", 4711)])
    _, said = watch(monkeypatch, [START])
    assert len(said) == 1 and said[0].startswith("another measurement (tuning, process 4711) runs on the same cores")


@pytest.mark.skipif(sys.platform != "linux", reason="the sign is a socket of Linux's")
def test_processes_see_each_other() -> None:
    code = (
        "import sys\nfrom tensorsmith.targets.neighbours import announced\n"
        "with announced('tuning'):\n    print('there', flush=True)\n    sys.stdin.readline()\n"
        "print('gone', flush=True)\nsys.stdin.readline()"
    )
    with announced("bench"):
        assert measuring() == [] or all(m.process != os.getpid() for m in measuring())
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "there\n"
        assert Measuring("tuning", other.pid) in measuring()
        print("go", file=other.stdin, flush=True)
        assert other.stdout.readline() == "gone\n"
        assert Measuring("tuning", other.pid) not in measuring()


def test_those_on_other_cores_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "unix").write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0: 00000002 00000000 00000000 0002 01 123 @tensorsmith/tuning/70001/0,1\n"
        "0: 00000002 00000000 00000000 0002 01 124 @tensorsmith/bench/70002/2,3\n"
        f"0: 00000002 00000000 00000000 0002 01 125 @tensorsmith/tuning/{os.getpid()}/0,1\n"
        "0: 00000002 00000000 00000000 0001 01 126 /run/systemd/notify\n"
    )
    monkeypatch.setattr(neighbours, "_allowed", lambda: {1, 4})
    assert measuring(tmp_path) == [Measuring("tuning", 70001)]
