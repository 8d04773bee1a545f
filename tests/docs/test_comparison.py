"""What docs/comparison.md says about us is so: each bullet against use and each line of the table has a check."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.docs.blocks import ROOT

import tensorsmith as ts
from tensorsmith.backends.cpu.named import NAMED
from tensorsmith.runtime.variants.executable import KEEP
from tensorsmith.search.trial import Status

PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def against() -> dict[str, str]:
    """The bullets of "When not to use", by what is bold."""
    part = PAGE.partition("## When not to use Tensorsmith\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\* \*\*(.+?)\*\* (.*)$", part, re.MULTILINE))


def ours() -> dict[str, str]:
    """Our column of the table."""
    rows = [
        line.split(" | ")
        for line in PAGE.partition("## Side by side\n")[2].partition("\n\nHow fast")[0].splitlines()
        if "|" in line
    ]
    return {row[0].removeprefix("| "): row[1] for row in rows[2:]}


# -- checks ------------------------------------------------------------------------------------------------------------


def product(kind: str, of: str, target: str | None = None) -> str:
    """The assembly of a matrix product whose operands have a type."""
    a, b = ts.placeholder((64, 256), kind, name="A"), ts.placeholder((256, 96), of, name="B", constant=True)
    k = ts.reduce_axis(256, "k")
    wide = "i32" if kind == "u8" else None

    def term(i: object, j: object) -> object:
        return ts.cast(wide, a[i, k]) * ts.cast(wide, b[k, j]) if wide else a[i, k] * b[k, j]

    return ts.compile([a, b, ts.compute((64, 96), lambda i, j: ts.sum(term(i, j), axis=k), name="C")], target=target).assembly


def only_x86_ran(said: str) -> None:
    states = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    for named in ("AArch64", "RISC-V with vectors", "GPUs"):
        state = re.search(rf"^\| {named}[^|]*\| (.+)$", states, re.MULTILINE)
        assert state is not None and re.match(r"\*\*(emulated|compiled) only\*\*", state[1])
    assert "neither ever ran on the hardware" in said or said == "x86-64 CPUs; WebAssembly in node"
    assert "| WebAssembly (`wasm32`, `wasm32-relaxed`) | **run in node" in states
    assert {"cortex-a53", "rv64gcv", "wasm32"} <= set(NAMED)


def no_training(said: str) -> None:
    assert said in ("no", "Tensorsmith runs inference. Use PyTorch.")
    assert not {"grad", "backward", "train", "gradient"} & set(dir(ts))


def open_shapes(said: str) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    exe = ts.compile(ts.load(model, shapes={"batch": None}))
    for size in (3, 7, 5):
        assert exe(-np.ones((size, 4), np.float32)).shape == (size, 4)
    assert len(exe.ranges) == 1 and len(exe.variants) == 0  # one for all
    graph.node[0].CopyFrom(helper.make_node("Concat", ["x", "x"], ["y"], axis=0))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    exe = ts.compile(ts.load(model, shapes={"batch": None}))
    for size in (1, 3):
        assert exe(-np.ones((size, 4), np.float32)).shape == (2 * size, 4)
    assert len(exe.variants) == 2  # each when it first came
    assert "range" in said and "when it first comes" in said and ("the last" not in said or f"the last {KEEP} are kept" in said)


def bf16(said: str) -> None:
    assert "vdpbf16ps" in product("bf16", "bf16", "znver4")
    assert re.search(r"\bbf(dot|mmla)\b", product("bf16", "bf16", "neoverse-v2"))
    assert "tdp" not in product("bf16", "bf16", "sapphirerapids"), "AMX is used: say so"
    assert "AMX" in said


def counts_of_onnx(said: str) -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    counted = re.search(r"(\d+) of (\d+) pass, (\d+) differ from ONNX's numbers by rounding only, (\d+) are refused, 0 wrong", page)
    assert counted is not None
    passed, every, rounding, refused = counted.groups()
    assert f"{passed} of ONNX's own {every} tests pass, {rounding} differ by rounding, {refused} are refused" in said


def version(said: str) -> None:
    assert f"This is version {'.'.join(ts.__version__.split('.')[:2])}." in said


def takes(said: str) -> None:
    assert said == "formulas, ONNX, PyTorch" and all(map(callable, (ts.compute, ts.load, ts.from_torch)))


def installs(said: str) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert said == "pip from a checkout; no compiler"
    assert "ext_modules" not in project and "llvmlite" in project.partition("dependencies = [")[2].partition("]")[0]


def checked_answers(said: str) -> None:
    """A candidate that answers wrongly is a status of its own; tests/measure breaks candidates and sees it."""
    assert said == "every candidate, before and after it is timed" and Status.WRONG_ANSWER.value == "wrong answer"


def without_python(said: str, folder: Path) -> None:
    assert said == "yes (C libraries)"
    a, b = (ts.placeholder((8,), name=name) for name in "AB")
    ts.compile([a, b, ts.compute((8,), lambda i: a[i] + b[i], name="C")]).export(folder, name="adds")
    assert {p.suffix for p in folder.iterdir()} >= {".h"}
    libraries = list(folder.glob("*.so"))
    for library in libraries:
        ctypes.CDLL(str(library))


def int8(said: str) -> None:
    assert said == "8-bit integers" and "vpdpbusd" in product("u8", "i8", "znver4")


def default_schedule(said: str) -> None:
    assert "default schedule" in said and "search" in said
    a = ts.placeholder((8,), name="A")
    (kernel,) = ts.compile([a, ts.compute((8,), lambda i: a[i] + 1.0, name="C")]).network.kernels
    assert kernel.schedule == "default"


AGAINST: dict[str, Callable[[str], None]] = {
    "You have a GPU, a phone, or any machine but an x86-64 CPU on Linux.": only_x86_ran,
    "You train.": no_training,
    "Every call has another shape, and operators need the size itself.": open_shapes,
    "You have AMX.": bf16,
    "You need every operator.": counts_of_onnx,
    "You need something that thousands have run for years.": version,
}
OURS: dict[str, Callable[[str], None]] = {
    "what it is": default_schedule,
    "machines it ran on": only_x86_ran,
    "takes": takes,
    "installs by": installs,
    "answers checked while searching": checked_answers,
    "shapes that change": open_shapes,
    "training": no_training,
    "bf16 instructions": bf16,
    "lowest precision that is fast": int8,
}


def test_every_claim_has_a_check() -> None:
    assert set(against()) == set(AGAINST)
    assert set(ours()) == {*OURS, "runs without Python"}


@pytest.mark.parametrize("claim", AGAINST)
def test_what_speaks_against_us_is_so(claim: str) -> None:
    AGAINST[claim](against()[claim])


@pytest.mark.parametrize("claim", OURS)
def test_our_column_is_so(claim: str) -> None:
    OURS[claim](ours()[claim])


def test_c_libraries_are_there(tmp_path: Path) -> None:
    without_python(ours()["runs without Python"], tmp_path / "library")


def test_readme_counts_the_same_onnx_tests() -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    passed, every = re.search(r"(\d+) of (\d+) pass", page).groups()  # type: ignore[union-attr]
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace(",", "")
    assert f"Of ONNX's own {every} tests {passed} pass" in readme
