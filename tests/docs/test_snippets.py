"""Every snippet of README and docs runs, page by page, in a folder with stand-ins for the reader's files (`stand_ins.py`)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from tests.docs import stand_ins
from tests.docs.blocks import ROOT, Block, blocks_of, pages
from tests.docs.running import Running

from tensorsmith.cli import app

PAGES = [page for page in pages() if any(b.language != "text" for b in blocks_of(page))]
NOT_RUN = [block for page in pages() for block in blocks_of(page) if block.why_not_run]


def run(page: str, blocks: list[Block], folder: Path, records: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    running = Running(stand_ins.prepare(page, folder, records))
    running.run(blocks)
    return running


@pytest.mark.filterwarnings("ignore:.* so the default schedule is used")  # the record file is that of a page's closed model
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of(page: str, tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(page, [b for b in blocks_of(page) if not b.needs_torch], tmp_path, records, monkeypatch)


def test_few_are_not_run_and_each_says_why() -> None:
    assert len(NOT_RUN) <= 3
    assert all(len(str(b.why_not_run).split()) >= 4 for b in NOT_RUN)


def commands_of_the_table() -> list[str]:
    text = (ROOT / "docs" / "commands.md").read_text()
    cells = [cell for line in text.splitlines() if line.startswith("| `tensorsmith") for cell in [line.split(" | ")[0]]]
    return [command for cell in cells for command in re.findall(r"`(tensorsmith [^`]+)`", cell)]


@pytest.mark.parametrize("command", commands_of_the_table())
def test_commands_of_the_table_are_understood(command: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    name, *rest = shlex.split(command)[1:]
    commands[name].make_context(name, rest)


# -- the tests' own means ----------------------------------------------------------------------------------------------


PAGE = """
A block:

```python
a = 1
```

<!-- snippet: not run: nobody has such a machine -->

```python
print(a)
```

```
tensorsmith tune model.onnx --time 10m \\
    --db tune.db      # a comment
```

```
a picture
```
"""


def test_blocks_are_found() -> None:
    found = blocks_of("page", PAGE)
    assert [b.language for b in found] == ["python", "python", "shell", "text"]
    assert [b.line for b in found] == [5, 11, 15, 20]
    assert found[1].why_not_run == "nobody has such a machine" and found[0].why_not_run is None
    assert found[2].commands == ["tensorsmith tune model.onnx --time 10m  --db tune.db      # a comment"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\na = 1\n", "page:1: the block has no end"),
        ("<!-- snippet: torch -->\n\nwords\n", "page:3: the mark 'torch' has no block behind it"),
        ("<!-- snippet: skip -->\n```python\n```\n", "page:3: the mark 'skip' means nothing"),
    ],
)
def test_marks_and_fences_that_are_wrong(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        blocks_of("page", text)


def test_budgets_are_tiny() -> None:
    assert stand_ins.tiny("ts.tune(m, seconds=600, min_seconds=2)") == "ts.tune(m, trials=2, min_seconds=2)"
    assert stand_ins.tiny('ts.tune(..., policy="random")') == 'ts.tune(computation, trials=2, policy="random")'
    assert stand_ins.tiny_command(["tensorsmith", "tune", "C2D-3-b1"])[-2:] == ["--trials", "2"]
    command = ["tensorsmith", "tune", "m.onnx", "--time", "10m", "-o", "m.tsm"]
    assert stand_ins.tiny_command(command) == ["tensorsmith", "tune", "m.onnx", "--trials", "2", "-o", "m.tsm"]


def test_what_a_command_prints_can_be_piped_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Running({}).run(blocks_of("page", "```\ntensorsmith targets --json > targets.json\ntensorsmith targets --json | jq .\n```\n"))
    assert '"znver4"' in Path("targets.json").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert 1 == 2\n```\n",
        "```python\nprint(1)\n```\n<!-- snippet: prints -->\n```text\n2\n```\n",
        "```\ntensorsmith tune nothing.onnx\n```\n",
        "```\nmake nothing\n```\n",
        "```\npython benchmarks/ops.py --no-such-option\n```\n",
        "```\npip install 'tensorsmith[nothing]'\n```\n",
    ],
)
def test_snippets_that_are_wrong_are_noticed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        Running({}).run(blocks_of("page", text))
