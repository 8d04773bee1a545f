"""Names of a stranger's model, wherever they are shown: on a terminal, in a page, in a notebook, in errors, warnings and logs."""

from __future__ import annotations

import io
import logging
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.show.line import page, plain
from tensorsmith.show.notebook import Display
from tensorsmith.tuning.progress.network import NetworkProgress
from tensorsmith.tuning.progress.reporter import Callback, LiveLine, NotebookBar, PlainLines

TITLE = "\x1b]0;owned\x07"  # sets the title of a terminal
EVIL = f"{TITLE}[red]\x1b[31m\u202eevil\u2028\x9b2J<b>"
#: as above, on two lines: the second would pass for one of ours
TWO_LINES = f"{EVIL}\nall is well"


def harmful(text: str) -> set[str]:
    """Characters that no terminal, and no page, should be given."""
    return {c for c in text if not c.isprintable() and c not in "\n\t"}


def write_evil(path: Path, name: str = TWO_LINES) -> str:
    """y = relu(x @ w), with that in every name."""
    w = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", [f"{name}x", f"{name}w"], [f"{name}z"], name=f"{name}node"),
        helper.make_node("Relu", [f"{name}z"], [f"{name}y"]),
    ]
    ends = [helper.make_tensor_value_info(f"{name}{n}", TensorProto.FLOAT, shape) for n, shape in (("x", (4, 8)), ("y", (4, 16)))]
    graph = helper.make_graph(nodes, f"{name}graph", ends[:1], ends[1:], [numpy_helper.from_array(w, f"{name}w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, str]:
    """A model of that name that was tuned, the folder with what came of it, and what was printed meanwhile."""
    folder = tmp_path_factory.mktemp("evil")
    model = write_evil(folder / "model.onnx")
    command = ["tune", model, "--trials", "2", "--db", str(folder / "tune.db"), "-o", str(folder / "model.tsm"), "-vv"]
    return model, folder, shown(*command)


def shown(*arguments: str) -> str:
    """What a command writes to both streams, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "from tensorsmith.cli import main; main()", *arguments], capture_output=True, timeout=300
    )
    return (done.stdout + done.stderr).decode()


def test_tune(tuned: tuple[str, Path, str]) -> None:
    text = tuned[2]
    assert "evil" in text and not harmful(text), text
    assert not re.search(r"^all is well", text, re.M)


@pytest.mark.parametrize(
    "command",
    [
        ["tasks", "MODEL"],
        ["tasks", "MODEL", "--db", "DB", "--profile"],
        ["compile", "MODEL", "--db", "DB", "-o", "OUT/again.tsm"],
        ["run", "MODEL"],
        ["run", "OUT/model.tsm"],
        ["run", "MODEL", "--input", "no-such=x.npy"],
        ["bench", "MODEL", "--seconds", "0.1"],
        ["export", "MODEL", "-o", "OUT/lib"],
        ["records", "DB"],
        ["records", "DB", "best", "MODEL"],
        ["report", "DB", "MODEL", "-o", "OUT/page.html"],
        ["compile", "MODEL", "--shape", "no-such=3", "-o", "OUT/x.tsm"],
        ["ops", "MODEL"],
        ["compile", "BROKEN", "-o", "OUT/x.tsm"],
        ["doctor"],
    ],
)
def test_commands(command: list[str], tuned: tuple[str, Path, str]) -> None:
    model, folder, _ = tuned
    broken = folder / "broken.onnx"
    if not broken.exists():
        form = onnx.load(model)
        form.graph.node[1].op_type = f"No{EVIL}"
        form.graph.node[1].name = f"{EVIL}node"
        broken.write_bytes(form.SerializeToString())
    places = {"MODEL": model, "DB": str(folder / "tune.db"), "OUT": str(folder), "BROKEN": str(broken)}
    text = shown(*(re.sub("MODEL|DB|OUT|BROKEN", lambda m: places[m[0]], word) for word in command))
    assert text and not harmful(text), text
    assert not re.search(r"^all is well", text, re.M) and "Traceback" not in text, text


def test_page(tuned: tuple[str, Path, str]) -> None:
    model, folder, _ = tuned
    ts.report(folder / "tune.db", folder / "report.html", model=ts.load(model))
    text = (folder / "report.html").read_text()
    own = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
    assert own is not None and "evil" in own[1]
    for escaped in ("\\u001b", "\\u202e", "\\u0007", "\\u009b", "\x1b", "\u202e", "<b>"):
        assert escaped not in own[1]
    assert "evil" in text[: own.start()] and not harmful(text[: own.start()]) and EVIL not in text


def test_objects(tuned: tuple[str, Path, str]) -> None:
    """What they show of themselves, in a prompt, by `print` and in a notebook."""
    model = ts.load(tuned[0])
    exe = ts.compile(model)
    A = ts.placeholder((4, 8), name=EVIL)
    B = ts.compute((4, 8), lambda i, j: A[i, j] + 1.0, name=f"{EVIL}B")
    workload = ts.workload([A, B])
    kernel = ts.compile(workload)
    found = [model, exe, exe.network, exe.profile(rounds=1), model.tasks(), model.tasks()[0], model.source, model.source.nodes[0],
             *exe.inputs, *exe.outputs, A, B, B[0, 0], workload, *workload.inputs, *workload.stages, kernel,
             kernel.network.kernels[0], pickle.loads(pickle.dumps(exe)), *ts.sketches(workload)]  # fmt: skip
    for thing in found:
        html = thing._repr_html_() if hasattr(thing, "_repr_html_") else ""
        for text in (repr(thing), str(thing), html):
            assert not harmful(text), (type(thing), text)
        assert "\n" not in repr(thing) and "<b>B" not in html.replace("<div><b>", "")
    for kind in ("program", "llvm", "asm"):
        assert not harmful(kernel.source(kind)) and not harmful(exe.source(kind))


def test_errors_warnings_and_logs(tuned: tuple[str, Path, str], caplog: pytest.LogCaptureFixture) -> None:
    model = ts.load(tuned[0])
    exe = ts.compile(model)
    (name,) = (a.name for a in exe.inputs)
    assert name == f"{TWO_LINES}x"  # it is what a caller gives the array by
    for wrong in (
        lambda: exe(np.zeros((3, 8), "f4")),
        lambda: exe(),
        lambda: exe(**{f"{EVIL}no": 1}),
        lambda: model.evaluate([1, 2, 3]),
    ):
        with pytest.raises((ts.UserError, TypeError)) as problem:
            wrong()
        assert not harmful(str(problem.value)) and not harmful(repr(problem.value)), str(problem.value)
    A = ts.placeholder((4, 8), name=EVIL)
    with warnings.catch_warnings(record=True) as said, caplog.at_level(logging.DEBUG, "tensorsmith"):
        warnings.simplefilter("always")
        ts.compile([A, ts.compute((4,), lambda i: A[i, 0], name=f"{EVIL}a\tb")])
        ts.compile(model, database=tuned[1] / "tune.db")
    for text in [*(str(w.message) for w in said), *(r.getMessage() for r in caplog.records)]:
        assert not harmful(text), text
    assert caplog.records


def test_one_function() -> None:
    assert plain(TWO_LINES) == "?]0;owned?[red]?[31m?evil ?2J<b> all is well"
    assert page(TWO_LINES) == "?]0;owned?[red]?[31m?evil ?2J<b>\nall is well"
    assert plain("größe 图像 🙂") == page("größe 图像 🙂") == "größe 图像 🙂"


def test_markup_is_no_markup(tuned: tuple[str, Path, str]) -> None:
    done = CliRunner().invoke(app, ["tasks", tuned[0]])
    assert done.exit_code == 0 and not harmful(done.output)
    done = CliRunner().invoke(app, ["run", tuned[0]])
    assert "[red]" in done.output and not harmful(done.output)


def test_what_a_run_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By every way that a run has to say it."""
    displayed: list[str] = []
    monkeypatch.setattr(Display, "show", lambda self, html: displayed.append(html))
    stream = io.StringIO()
    progress = NetworkProgress((EVIL,), (1e-3,), (2e-3,), 1, 1, EVIL, 1, 2, 1.0)
    for make in (PlainLines, NotebookBar, lambda: LiveLine(Console(file=stream, force_terminal=True, width=300))):
        reporter = make()
        reporter.say(EVIL)
        reporter.warn(EVIL)
        reporter.update(progress)
        reporter.close()
    with pytest.warns(RuntimeWarning, match="evil") as said:
        Callback(lambda progress: None).warn(EVIL)
    printed = capsys.readouterr().out
    assert printed.count("evil") >= 5 and displayed and stream.getvalue().count("evil") >= 3
    assert not harmful(printed + displayed[0] + str(said[0].message))
    assert TITLE not in stream.getvalue() and "\u202e" not in stream.getvalue() and "\x9b" not in stream.getvalue()
