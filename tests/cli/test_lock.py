"""`tensorsmith lock` and `check-lock`, and their exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.models import write_dense
from typer.testing import CliRunner

from tensorsmith.cli import app


def ran(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.output


def test_a_lock_is_written_and_checked(tmp_path: Path) -> None:
    model, lock = write_dense(tmp_path / "dense.onnx", ("rows", 8)), tmp_path / "dense.lock"
    status, text = ran("lock", model, "--shape", "rows=4", "-o", lock, "--threads", 1)
    assert status == 0 and f"{lock} written" in text
    status, text = ran("check-lock", model, lock, "--shape", "rows=4", "--no-time")
    assert status == 0 and text.splitlines()[-1] == "passed"
    status, text = ran("check-lock", model, lock, "--shape", "rows=4", "--slower", 1000000, "--json")
    found = json.loads(text)
    assert status == 0 and not found["slower"] and found["now"] > 0

    data = json.loads(lock.read_text())
    data["outputs"][0]["digest"] = "0"
    lock.write_text(json.dumps(data))
    status, text = ran("check-lock", model, lock, "--shape", "rows=4", "--no-time")
    assert status == 1 and text.splitlines()[-1] == "different" and "output y differs, by 0 of its largest" in text
    data["seconds"] = 1e-12
    lock.write_text(json.dumps(data))
    status, text = ran("check-lock", model, lock, "--shape", "rows=4")
    assert status == 1 and text.splitlines()[-1] == "slower; different"
