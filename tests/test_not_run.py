"""The last lines of a run say what was not run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.not_run import COMMANDS, chooses

ROOT = Path(__file__).parents[1]

CONFTEST = (ROOT / "tests" / "conftest.py").read_text()
TESTS = """
import pytest


def test_runs():
    pass


@pytest.mark.parametrize("n", range(3))
@pytest.mark.fleet
def test_elsewhere(n):
    raise AssertionError


@pytest.mark.long
@pytest.mark.peers
def test_beside_others():
    raise AssertionError


@pytest.mark.long
def test_takes_minutes():
    raise AssertionError
"""
PEERS = "import pytest\nimport no_such_peer\n\npytestmark = pytest.mark.peers\n\ndef test_a(): pass\n\ndef test_b(): pass\n"
MARKS = "not long and not peers and not fleet"


@pytest.fixture
def said(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_peers.py").write_text(PEERS)
    marks = "".join(f"  {suite}\n" for suite in COMMANDS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = -q -m '{MARKS}'\npythonpath = {ROOT}\nmarkers =\n{marks}")

    def run(*options: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout.splitlines()

    return run


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_last_lines_name_every_suite_how_many_tests_and_its_command(said, workers: str) -> None:
    *_, closing, first, second, third = said("-n", workers)
    assert re.match(r"1 passed, 5 deselected in|1 passed in", closing)
    assert first == "not run: at least 3 peers tests (make test-peers)"  # one of them takes minutes besides
    assert second == "not run: 3 fleet tests (make test-fleet)"
    assert third == "not run: 1 long tests (make test-long)"


def test_nothing_is_said_where_nothing_was_left_out_or_somebody_looks_for_one_test(said) -> None:
    assert said("test_some.py", "-k", "runs", "-n", "0")[-1].startswith("1 passed")
    assert said("test_some.py", "-m", "not arm", "-k", "runs", "-n", "0")[-1].startswith("1 passed")


def test_a_suite_that_needs_no_peers_does_not_import_them(said, tmp_path: Path) -> None:
    """As `make test-browser` does in an environment without PyTorch."""
    (tmp_path / "test_page.py").write_text("import pytest\n\n@pytest.mark.browser\ndef test_page(): pass\n")
    assert re.match("1 passed, 6 deselected in", said("-m", "browser", "-n", "0")[-1])


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [("peers", True), ("peers and not long", True), ("peers and long", True), ("gpu or not gpu", True), ("browser", False),
     ("long and not peers", False), (MARKS, False), ("long", True), ("fleet", False)],
)  # fmt: skip
def test_which_suites_choose_tests_of_a_file_that_needs_peers(expression: str, chosen: bool) -> None:
    assert chooses(expression, PEERS + "\n@pytest.mark.long\ndef test_c(): pass\n") is chosen


def test_every_suite_has_its_command() -> None:
    marks = set(re.findall(r'^  "(\w+): .*runs in `make', (ROOT / "pyproject.toml").read_text(), re.M))
    assert marks == COMMANDS.keys()
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {word for command in COMMANDS.values() for word in command.split()[1:]} <= targets
