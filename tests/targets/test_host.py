"""How many threads are worth having: what the environment, the affinity and the container say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorsmith.errors import UserError
from tensorsmith.targets import host


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_a_container_of_version_2(tmp_path):
    write(tmp_path, cgroup="0::/docker/abc\n")
    root = tmp_path / "cgroup-root"
    write(root, cpu__max="max 100000\n")
    assert host.cpu_quota(tmp_path / "cgroup", root) is None
    write(root / "docker", cpu__max="350000 100000\n")
    write(root / "docker" / "abc", cpu__max="max 100000\n")
    assert host.cpu_quota(tmp_path / "cgroup", root) == 3.5  # of the group that it is in
    write(root / "docker" / "abc", cpu__max="150000 100000\n")
    assert host.cpu_quota(tmp_path / "cgroup", root) == 1.5


def test_a_container_of_version_1(tmp_path):
    write(tmp_path, cgroup="5:memory:/other\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n")
    folder = tmp_path / "cpu,cpuacct" / "docker" / "abc"
    write(folder, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert host.cpu_quota(tmp_path / "cgroup", tmp_path) is None
    write(folder, cpu__cfs_quota_us="250000\n")
    assert host.cpu_quota(tmp_path / "cgroup", tmp_path) == 2.5


@pytest.mark.parametrize("text", ["", "nonsense\n", "0::\n", "0::/../..\n"])
def test_a_system_that_says_nothing(tmp_path, text):
    write(tmp_path, cgroup=text, cpu__max="nonsense")
    assert host.cpu_quota(tmp_path / "cgroup", tmp_path) is None
    assert host.cpu_quota(tmp_path / "missing", tmp_path) is None


@pytest.mark.parametrize(("quota", "threads"), [(None, 8), (0.3, 1), (1.0, 1), (1.5, 2), (6.0, 6), (64.0, 8)])
def test_threads(monkeypatch, quota, threads):
    monkeypatch.delenv(host.THREADS, raising=False)
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(host, "cpu_quota", lambda: quota)
    assert host.thread_count() == threads
    monkeypatch.setenv(host.THREADS, "5")
    assert host.thread_count() == 5


@pytest.mark.parametrize("given", ["0", "two", "-1", ""])
def test_what_is_no_number_of_threads(monkeypatch, given):
    monkeypatch.setenv(host.THREADS, given)
    with pytest.raises(UserError, match="TENSORSMITH_NUM_THREADS is "):
        host.thread_count()
