"""The examples: each keeps the promises of what it is an example of, is short, and runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tensorsmith as ts
from tensorsmith.ops.pool import avg_pool
from tensorsmith.plugins import load
from tensorsmith.targets.target import native
from tensorsmith.testing import check_cost_model, check_policy, check_rule

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))


def test_the_policy() -> None:
    check_policy(f"{EXAMPLES}/policy_hill_climb.py:HillClimb")


def test_the_cost_model() -> None:
    check_cost_model(f"{EXAMPLES}/cost_model_ridge.py:Ridge")


def test_the_rule() -> None:
    rule, *_ = load("rules", f"{EXAMPLES}/rule_short_window.py:RULES")
    x = ts.placeholder((1, 7, 9, native().lanes() + 3), name="x")
    check_rule(rule, [ts.workload([x, avg_pool(x, kernel=3, stride=2)])])


def test_there_is_one_of_each() -> None:
    assert [f.stem.split("_")[0] for f in FILES] == ["cost", "policy", "rule"]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_they_are_short_and_run(file: Path) -> None:
    assert len(file.read_text().splitlines()) < 80
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert " trials, best " in done.stdout and " us" in done.stdout.splitlines()[-1]
