"""What a run of the tests left out: the last lines say it, suite by suite, with the command that runs each.

Whoever reads "13,000 passed" should see there that nothing was tried beside PyTorch, on another architecture or in a browser.
Tests are left out by their marks. Files of tests that all need peers are not even imported: of those the functions are counted.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression

#: by the mark of a suite: the command that runs it. A test of several suites is run by the first.
COMMANDS = {
    "peers": "make test-peers",
    "outside": "make test-outside",
    "fleet": "make test-fleet",
    "gpu": "make test-gpu",
    "arm": "make test-arm",
    "riscv": "make test-riscv",
    "wasm": "make test-wasm",
    "browser": "make test-browser",
    "clean": "make tutorial dist",
    "long": "make test-long",
}

_LEFT_OUT = pytest.StashKey[Counter[str]]()
_WORKERS = "tests_not_run"  # the word under which a worker of xdist tells it


def left_out(config: pytest.Config) -> Counter[str]:
    """Tests that were left out so far, by the mark of their suite."""
    return config.stash.setdefault(_LEFT_OUT, Counter())


def unread(path: Path, config: pytest.Config) -> None:
    """A file that is not even imported, because all of its tests need peers."""
    left_out(config)["peers"] += sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in ast.parse(path.read_text()).body
    )


def chooses(expression: str, text: str) -> bool:
    """Whether `-m expression` can choose a test of a file with this text whose tests are all marked `peers`."""
    compiled = Expression.compile(expression)
    others = sorted(set(re.findall(r"pytest\.mark\.(\w+)", text)) & set(COMMANDS) - {"peers"})
    return any(
        compiled.evaluate(lambda name, /, marks={"peers", *chosen}, **_: name in marks)
        for count in range(len(others) + 1)
        for chosen in combinations(others, count)
    )


def lines(config: pytest.Config) -> list[str]:
    """What to say, a line for each suite that was asked to be left out. Nothing to those who look for one test by its name."""
    found, said = left_out(config), []
    for suite, command in COMMANDS.items():
        if found[suite] and f"not {suite}" in config.option.markexpr and not config.option.keyword:
            least = "at least " if suite == "peers" else ""  # the functions of files that are not read may be many tests each
            said.append(f"not run: {least}{found[suite]:,} {suite} tests ({command})")
    return said


# -- hooks of pytest ---------------------------------------------------------------------------------------------------------


class Hooks:
    """Registered by `conftest.py`."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            marks = {mark.name for mark in item.iter_markers()}
            left_out(self._config).update([suite for suite in COMMANDS if suite in marks][:1])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of xdist is done: all of them have left out the same."""
        found = getattr(node, "workeroutput", {}).get(_WORKERS)
        if found is not None:
            self._config.stash[_LEFT_OUT] = Counter(found)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Any:
        """Behind pytest's own last line."""
        told: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if told is not None:  # a worker of xdist, which sends this when it has finished
            told[_WORKERS] = dict(left_out(self._config))
        result = yield
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if told is None and reporter is not None and not self._config.option.collectonly:
            reporter.ensure_newline()
            for line in lines(self._config):
                reporter.write_line(line, yellow=True)
        return result
