"""The command line as a shell starts it: streams that cannot hold every character, readers that leave, Ctrl-C at any moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from tests.cli.models import write_dense

SRC = Path(__file__).parents[2] / "src"
HARD = 120  # seconds after which anything here hangs

DEFINITION = """
import tensorsmith as ts
A = ts.placeholder((16, 24), name="A")
tensors = [A, ts.compute((16, 24), lambda i, j: A[i, j] * 2.0, name="B")]
"""


def start(*arguments: str, script: str = "", cwd: str | None = None, **env: str) -> subprocess.Popen:
    """A Python process that can find this very package; what it says is read as bytes."""
    return subprocess.Popen(
        [sys.executable, "-c", script or "from tensorsmith_command import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SRC), "TENSORSMITH_NUM_THREADS": "2", **env},
    )


def finished(process: subprocess.Popen) -> tuple[int, bytes, bytes]:
    try:
        out, err = process.communicate(timeout=HARD)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Of a name, and with an output, that few streams can hold."""
    path = write_dense(tmp_path / "dense.onnx")
    proto = onnx.load(path)
    proto.graph.name = "d\u00e9nse \u00b5 \u2713"
    for node in proto.graph.node:
        node.output[:] = ["\u00fc" if name == "y" else name for name in node.output]
        node.input[:] = ["\u00fc" if name == "y" else name for name in node.input]
    proto.graph.output[0].name = "\u00fc"
    onnx.save(proto, path)
    return path


EACH = """
import json, sys
from tensorsmith.cli import main
codes = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["tensorsmith", *arguments]
    try:
        main()
    except SystemExit as end:
        codes.append(end.code)
print("codes", codes)
"""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_command_on_a_stream_that_cannot_hold_every_character(model: str, tmp_path: Path, encoding: str) -> None:
    db, tuned, compiled, array = (str(tmp_path / name) for name in ("tune.db", "tuned.tsm", "compiled.tsm", "out.npz"))
    commands = [
        ["tune", model, "--trials", "2", "--db", db, "-o", tuned],
        ["compile", model, "--db", db, "-o", compiled],
        ["tasks", model, "--db", db],
        ["sketches", "C2D-3-b1"],
        ["run", compiled, "--output", array],
        ["bench", compiled, "--seconds", "0.01"],
        ["records", db],
        ["records", db, "export", str(tmp_path / "lines.jsonl")],
        ["--help"],
        ["tune", "--help"],
        ["tasks", "\u00fc.onnx"],
    ]
    code, out, err = finished(start(json.dumps(commands), script=EACH, PYTHONIOENCODING=encoding))
    assert code == 0, err.decode(encoding)
    assert out.decode(encoding).splitlines()[-1] == f"codes {[0] * (len(commands) - 1) + [2]}", (out, err)
    assert b"Traceback" not in err
    for file in (tuned, compiled, array):
        assert Path(file).is_file()


def test_units_are_in_letters_that_every_stream_holds() -> None:
    for file in (SRC / "tensorsmith").rglob("*.py"):
        assert "\u00b5" not in file.read_text() and "\u03bc" not in file.read_text(), file


@pytest.mark.parametrize("command", [("tasks", "MODEL"), ("tune", "FILE", "--trials", "0"), ("--help",)])
def test_a_reader_that_leaves_ends_the_command_quietly(model: str, command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(DEFINITION)
    process = start(*({"MODEL": model, "FILE": str(file)}.get(word, word) for word in command), cwd=str(tmp_path))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(HARD) in (0, 1)
    assert err == b""


#: Ctrl-C at the moment when a module is looked for, in the midst of loading others.
INTERRUPTED = """
import os, signal, sys
handler, name = sys.argv.pop(1), sys.argv.pop(1)
if handler == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
else:
    signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, wanted, path=None, target=None):
        if wanted == name:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from tensorsmith_command import main
main()
"""


@pytest.mark.parametrize("name", ["tensorsmith", "numpy", "tensorsmith.graph.model", "tensorsmith.cli.tune", "onnx"])
def test_ctrl_c_while_the_package_or_a_model_is_loaded(model: str, name: str) -> None:
    code, out, err = finished(start("heeded", name, "tasks", model, script=INTERRUPTED))
    assert (code, out, err) == (130, b"", b"")


def test_ctrl_c_that_is_ignored_on_entry_stays_so(model: str) -> None:
    """As under `nohup`, and in jobs that a script puts into the background."""
    for name in ("numpy", "onnx"):
        code, out, err = finished(start("ignored", name, "tasks", model, script=INTERRUPTED))
        assert code == 0 and b"matmul" in out, err
