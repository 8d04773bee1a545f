"""`tensorsmith records FILE ...`: what it answers, what it moves, and that a stranger's file can do it no harm."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path

import pytest
from tests.records.samples import failure, matmul, trial
from typer.testing import CliRunner, Result

from tensorsmith.cli import app
from tensorsmith.cli.words import told
from tensorsmith.records import Store, Timing, candidate_key
from tensorsmith.search.trial import Status
from tensorsmith.targets.target import native

W, OTHER = matmul(), matmul(64)
TARGET, TIMING = native(), Timing("warm", native().cores)


def run(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["records", *map(str, arguments)], input=text)


def good(*arguments: object, text: str | None = None) -> str:
    """The output of a command that succeeds; several blanks are one."""
    result = run(*arguments, text=text)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return " ".join(result.output.split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tune.db"
    with Store.open(path) as store:
        store.add(
            W, TARGET, TIMING, [trial(W, 2e-3, 3, spread=0.05), failure(W, i=7), failure(W, i=8), trial(W, 1e-3, 2)], run="one"
        )
        store.add(W, TARGET, TIMING, [failure(W, Status.TIMED_OUT, "", 9), trial(W, 4e-3, 6, at_least=True)])
        store.add(OTHER, TARGET, TIMING, [trial(OTHER, 5e-3)])
    return path


def test_summary(file: Path) -> None:
    text = good(file)
    assert f"│ {W.key} │ C f32[32, 16] │ {TARGET.key} │ {TIMING} │ 6 │ 3 │ 1,000.0 us │ 0.0 │" in text
    assert f"│ {OTHER.key} │ C f32[64, 16] │ {TARGET.key} │ {TIMING} │ 1 │ 0 │ 5,000.0 us │ 0.0 │" in text


def test_best(file: Path) -> None:
    text = good(file, "best", W.key[:6])
    assert f"C f32[32, 16] ({W.key}) on {TARGET.key}, {TIMING}: 6 trials 1,000.0 us (spread 0.0%), 0.0 GFLOP/s" in text
    assert f"candidate {candidate_key(trial(W, i=2).candidate)} C: i.0 j.0 | k.0 i.1 j.1 vector j.1 C.i.1=2 C.j.1=8" in text


def test_top(file: Path) -> None:
    text = good(file, "top", W.key, "-k", 2)
    assert "│ 1 │ 1,000.0 us │ 1.00x │ 0.0% │" in text and "│ 2 │ 2,000.0 us │ 2.00x │ 5.0% │" in text
    assert "2,000.0 us" not in good(file, "top", W.key, "-k", 1)


def test_history(file: Path) -> None:
    text = good(file, "history", W.key)
    for row in (
        "one │ ok │ 2,000.0 us │ 2,000.0 us │",
        "one │ crashed │ - │ 2,000.0 us │",
        "one │ ok │ 1,000.0 us │ 1,000.0 us │",
        "│ timed out │ - │ 1,000.0 us │",
        "│ ok │ at least 4,000.0 us │ 1,000.0 us │",
    ):
        assert row in text
    last = good(file, "history", W.key, "--last", 2)
    assert "│ 5 │" in last and "│ 4 │" not in last


def test_failures(file: Path) -> None:
    text = good(file, "failures")
    assert "2 x crashed: segmentation fault for example candidate" in text and "C.i.1=7" in text and "C.i.1=8" not in text
    assert text.index("2 x crashed") < text.index("1 x timed out for example")
    assert good(file, "failures", W.key) == text
    assert good(file, "failures", OTHER.key) == "nothing failed"


def test_why(file: Path, tmp_path: Path) -> None:
    assert "found: 1,000.0 us" in good(file, "why", W.key)
    cold = good(file, "why", W.key, "--cache", "cold", "--threads", 99)
    assert f"│ workload │ {W.key} │ 6 │ │ │ target │ {TARGET.key} │ 6 │ │" in cold
    assert f"│ timing │ cold cache, 99 threads │ 0 │ cache cold != warm, threads 99 != {TIMING.threads} │" in cold
    assert f"no record is found: workload {W.key} was never timed with cold cache, 99 threads" in cold
    never = good(file, "why", "GMM-1-b1")
    assert "│ 0 │ there are records of 2 others │" in never and "was never tuned" in never

    elsewhere = dataclasses.replace(TARGET, cores=TARGET.cores + 1)
    with Store.open(tmp_path / "elsewhere.db") as store:
        store.add(W, elsewhere, TIMING, [trial(W)])
    text = good(tmp_path / "elsewhere.db", "why", W.key)
    assert f"│ target │ {TARGET.key} │ 0 │ {elsewhere.key} (cores {TARGET.cores} != {elsewhere.cores}) │" in text
    assert good(tmp_path / "elsewhere.db", "best", W.key).startswith(f"C f32[32, 16] ({W.key}) on {elsewhere.key}")


def test_export_and_import(file: Path, tmp_path: Path) -> None:
    assert good(file, "export", tmp_path / "all.jsonl") == "7 records written, 0 skipped"
    assert good(tmp_path / "new.db", "import", tmp_path / "all.jsonl") == "7 records added, 0 there already, 0 skipped"
    lines = (tmp_path / "all.jsonl").read_text()
    assert lines in run(file, "export", "-").output
    changed = lines.replace('"status":"ok"', '"status":"perfect"', 1)
    assert good(tmp_path / "third.db", "import", "-", text=changed).startswith(
        "6 records added, 0 there already, 1 skipped (1 x result:"
    )
    assert good(tmp_path / "third.db", "merge", file) == "1 records added, 6 there already, 0 skipped"
    assert good(tmp_path / "third.db") == good(file)
    assert "exists already" in str(run(file, "export", tmp_path / "all.jsonl").exception)


def test_recover(file: Path, tmp_path: Path) -> None:
    with file.open("r+b") as damaged:
        damaged.write(bytes(100))
    problem = told(run(file).exception)
    assert f"tensorsmith records {file} recover NEW_FILE" in problem
    assert good(file, "recover", tmp_path / "new.db") == "7 records added, 0 there already, 0 skipped"
    assert W.key in good(tmp_path / "new.db")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["best", "GMM-1-b1"], "has no record of GMM-1-b1: no such workload: "),
        (["best", "0000"], "has a key that begins with '0000'; no case is called '0000'"),
        (["top", "nothing.py"], "there is no file nothing.py"),
        (["why", "GMM-1-b1", "--cache", "hot"], "timing with a 'hot' cache is not known"),
        (["import", "none.jsonl"], "there is no file none.jsonl"),
        (["merge", "none.db"], "there is no record file none.db"),
    ],
)
def test_mistakes(file: Path, arguments: list[str], message: str) -> None:
    assert message in str(run(file, *arguments).exception)


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    for arguments in ([], ["best", "GMM-1-b1"], ["export", "-"], ["recover", tmp_path / "new.db"]):
        assert "there is no" in str(run(tmp_path / "none.db", *arguments).exception)
    assert list(tmp_path.iterdir()) == []


def test_reading_does_not_change_a_file(file: Path) -> None:
    before = file.read_bytes()
    for arguments in ([], ["best", W.key], ["top", W.key], ["history", W.key], ["failures"], ["why", W.key], ["export", "-"]):
        good(file, *arguments)
    assert file.read_bytes() == before


def test_texts_of_a_stranger_do_nothing_to_the_terminal(file: Path) -> None:
    nasty = "\x1b]0;owned\x07 [bold]\x9b31m[link=file:///etc]x[/link] \u202e[/nonsense]"
    connection = sqlite3.connect(file)
    connection.execute("UPDATE record SET cause = ?, run = ? WHERE status != 'ok'", (nasty, nasty))
    connection.execute("UPDATE record SET created = 9e99 WHERE status = 'ok'")
    connection.execute("UPDATE record SET candidate = '{}' WHERE id = 1")
    connection.commit()
    connection.close()
    for arguments in ([], ["best", W.key], ["top", W.key], ["history", W.key], ["failures"], ["why", W.key]):
        result = run(file, *arguments)
        assert result.exit_code == 0, result.output
        assert not set("\x1b\x07\x9b\u202e") & set(result.output)
    assert "[bold]?31m[link=file:///etc]x[/link] ?[/nonsense]" in good(file, "history", W.key)
    assert "left out: " in good(file, "history", W.key)
    assert json.loads(run(file, "export", "-").output.splitlines()[1])["cause"] == nasty


LOGS = Path(__file__).parent.parent / "records" / "ansor" / "logs"


def test_a_log_of_another_system_is_looked_at_without_a_file() -> None:
    log = LOGS / "v100.matmul.jsonl"
    found = json.loads(run("import", log, "--from", "ansor", "--json").output)
    assert {"records", "valid", "placed", "failed", "not_placed"} <= found.keys()
    assert found["records"] == len(log.read_text().splitlines()) == found["valid"] + found["failed"]
    assert found["placed"] + sum(found["not_placed"].values()) == found["valid"]
    assert json.loads(run("import", log, "--from=ansor", "--check", "--json").output)["lowered_otherwise"] == 0
    assert "of those that ran are candidates of ours" in good("import", log, "--from", "ansor")


def test_programs_of_another_system_are_kept_beside_records(file: Path) -> None:
    before = good(file)
    text = good(file, "import", LOGS / "x86.matmul.jsonl", "--from", "ansor")
    assert "kept as hints, 0 there already" in text
    assert "0 programs kept as hints" in good(file, "import", LOGS / "x86.matmul.jsonl", "--from", "ansor")
    assert good(file) == before
    assert run(file, "import", LOGS / "x86.matmul.jsonl", "--from", "halide").exit_code != 0
