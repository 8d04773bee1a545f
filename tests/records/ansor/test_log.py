"""Logs of TVM's auto_scheduler: every line counted, programs placed, nothing executed."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.records import ansor

LOGS = Path(__file__).parent / "logs"
FILES = sorted(LOGS.glob("*.jsonl"))


def lines_of(name: str) -> list[str]:
    return (LOGS / name).read_text().splitlines()


def read(tmp_path: Path, *lines: str, name: str = "log.json") -> ansor.Log:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return ansor.read(path)


def changed(line: str, change: Any) -> str:
    data = json.loads(line)
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_programs_are_candidates_and_lower_to_their_loops(path: Path) -> None:
    log = ansor.read(path)
    assert not log.faults and len(log.records) == len(path.read_text().splitlines())
    assert [r.line for r in log.records] == list(range(1, len(log.records) + 1))
    for record in log.records:
        assert record.reason is None, (record.line, record.reason)
        assert record.candidate is not None and record.candidate.sketch.workload == record.workload
        assert (record.seconds is None) == (record.status != "ok")
    assert log.lowered_otherwise() == 0


def test_decisions_are_the_lengths_of_the_splits(tmp_path: Path) -> None:
    line = lines_of("v100.matmul.jsonl")[0]
    splits = [s for s in json.loads(line)["i"][1][1] if s[0] == "SP"]
    (record,) = read(tmp_path, line).records
    decisions = record.candidate.decisions  # type: ignore[union-attr]
    assert [decisions[f"C.i.{n}"] for n in (1, 2)] == splits[0][4][:2]
    assert [decisions[f"C.j.{n}"] for n in (1, 2)] == splits[1][4][:2]
    assert [decisions[f"C.cache.k.{n}"] for n in (1, 2)] == splits[2][4]
    assert record.kind == "gpu" and record.task.key == '["matmul_layer", 1024, 1024, 4096]'


def test_packed_files_are_read(tmp_path: Path) -> None:
    text = (LOGS / "v100.reduction.jsonl").read_bytes()
    want = ansor.read(LOGS / "v100.reduction.jsonl").counts()
    for name, pack in (("a.xz", lzma.compress), ("a.gz", gzip.compress), ("no-ending", lzma.compress)):
        (tmp_path / name).write_bytes(pack(text))
        assert ansor.read(tmp_path / name).counts() == want
    (tmp_path / "cut.xz").write_bytes(lzma.compress(text)[:-40])
    cut = ansor.read(tmp_path / "cut.xz")
    assert cut.faults == {"the file is damaged from here on": 1}
    with pytest.raises(UserError, match="cannot be read"):
        ansor.read(tmp_path / "missing")


def test_failures_keep_their_cause(tmp_path: Path) -> None:
    line = lines_of("v100.matmul.jsonl")[0]

    def failed(code: int) -> str:
        return changed(line, lambda d: d.update(r=[[1e10], code, 10.9, 1637575039]))

    log = read(tmp_path, line, *(failed(code) for code in (2, 4, 6, 7, 99)))
    assert [r.status for r in log.records] == ["ok", "build failed", "run failed", "build timed out", "run timed out", "unknown"]
    assert [r.seconds is None for r in log.records] == [False] + [True] * 5
    counts = log.counts()
    assert (counts["records"], counts["valid"], counts["placed"], counts["failed"]) == (6, 1, 1, 5)


HOSTILE = (
    "not json", "{", "[]", "1", '"text"', "{}", "[" * 5000, '{"i": [], "r": []}', '{"i": [[1, 2], [[], []]], "r": [[1], 0, 1, 1]}',
    '{"input": ["llvm", "dense", []], "config": {}, "result": []}',
)  # fmt: skip


def malformed(line: str) -> list[str]:
    """A record with one thing wrong in each."""

    def steps(change: Any) -> str:
        return changed(line, lambda d: change(d["i"][1][1]))

    return [
        steps(lambda s: s.append(["SP", 0, 0, 4, ["__import__('os').system('touch hacked')"], 1])),
        steps(lambda s: s.append(["SP", 0, 0, 4, [0], 1])),
        steps(lambda s: s.append(["SP", 0, -1, 4, [2], 1])),
        steps(lambda s: s.append(["SP", 0, 0, 4, [True], 1])),
        steps(lambda s: s.append(["SP", 0, 0, 4, [1 << 80], 1])),
        steps(lambda s: s.append(["../../etc/passwd", 0])),
        steps(lambda s: s.append(["_rewrite", 0])),
        steps(lambda s: s.append([])),
        steps(lambda s: s.append("AN")),
        steps(lambda s: s.append(["AN", 0, 0, 99])),
        steps(lambda s: s.append(["CHR", 0, "\x1b[31m", [1]])),
        steps(lambda s: s.extend([["CR", 2]] * 1000)),
        changed(line, lambda d: d["i"][0].__setitem__(0, "{broken")),
        changed(line, lambda d: d["i"][0].__setitem__(2, ["a"])),
        changed(line, lambda d: d.update(r=[[float("nan")], 0, 1.0, 1])),
        changed(line, lambda d: d.update(r=[[-1.0], 0, 1.0, 1])),
        changed(line, lambda d: d.update(r=[[], 0, 1.0, 1])),
        changed(line, lambda d: d.update(r=["fast", 0, 1.0, 1])),
    ]


def test_lines_that_are_no_records_are_counted_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = lines_of("v100.matmul.jsonl")[0]
    bad = [*HOSTILE, *malformed(line)]
    log = read(tmp_path, "# a comment", "", line, *bad, line, line[: len(line) // 2])
    assert len(log.records) == 2 and log.counts()["placed"] == 2
    assert sum(log.faults.values()) == len(bad) + 1, log.faults
    assert log.faults["the line is no record of auto_scheduler: it is AutoTVM's"] == 1
    assert all(text.isascii() and text.isprintable() for text in log.faults)
    assert not (tmp_path / "hacked").exists()


UNPLACEABLE = {
    "a step of a stage that the computation does not have": ["CR", 200],
    "a step of a loop that the stage does not have": ["AN", 3, 77, 1],
    "loops fused that are no neighbours": ["FU", 2, [0, 2]],
    "storage that is aligned": ["SA", 2, 0, 32, 8],
    "prefetching": ["PF", 2, 0, 1],
    "a pragma other than auto_unroll_max_step": ["PR", 2, 0, "debug_skip_region"],
    "a split that follows none": ["FSP", 2, 0, 99, 1],
    "a loop bound to tensorize": ["AN", 2, 12, 11],
}


@pytest.mark.parametrize(("reason", "step"), UNPLACEABLE.items(), ids=list(UNPLACEABLE))
def test_what_cannot_be_placed_says_why(tmp_path: Path, reason: str, step: list[Any]) -> None:
    line = lines_of("x86.matmul.jsonl")[0]
    if reason == "a loop bound to tensorize":
        line = changed(line, lambda d: d["i"][1].__setitem__(1, [["AN", 2, 0, 11]]))
    else:
        line = changed(line, lambda d: d["i"][1][1].insert(0, step))
    log = read(tmp_path, line)
    assert log.counts()["not_placed"] == {reason: 1}
    assert log.records[0].candidate is None and log.records[0].seconds is not None


def test_unknown_workloads_and_targets_are_counted(tmp_path: Path) -> None:
    line = lines_of("v100.matmul.jsonl")[0]

    def task(place: int, text: str) -> str:
        return changed(line, lambda d: d["i"][0].__setitem__(place, text))

    log = read(
        tmp_path,
        task(0, '["mystery", 1]'),
        task(0, '["matmul_layer", 128, "x", 7]'),
        task(0, '["matmul_layer", 1048577, 1048577, 1048577]'),
        task(0, '["00000000000000000000000000000000", [7]]'),
        task(1, "hexagon"),
        task(0, '["matmul_layer", 1024, 1024, 4095]'),
    )
    assert log.counts()["not_placed"] == {
        "no definition of the workload": 1,
        "arguments that the definition does not take": 1,
        "a workload larger than any memory": 1,
        "a task of a network with shapes that no known computation has": 1,
        "a target of another kind": 1,
        "a split of an extent that the computation does not have": 1,
    }


def test_a_users_definition(tmp_path: Path) -> None:
    line = changed(lines_of("v100.matmul.jsonl")[0], lambda d: d["i"][0].__setitem__(0, '["mine", 4096]'))
    assert read(tmp_path, line).counts()["placed"] == 0

    @ansor.define("mine")
    def mine(columns: int) -> list[Any]:
        a, b = ts.placeholder((1024, 1024), name="left"), ts.placeholder((1024, columns), name="right")
        k = ts.reduce_axis(1024, name="k")
        return [a, b, ts.compute((1024, columns), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="product")]

    try:
        (record,) = read(tmp_path, line).records
        assert record.candidate is not None and record.candidate.sketch.workload.outputs == ("product",)
    finally:
        ansor.forget("mine")
    assert read(tmp_path, line).counts()["placed"] == 0


def test_what_follows_a_layer_is_told_by_the_steps(tmp_path: Path) -> None:
    """The key is that of the plain convolution in all three files."""
    epilogues = {name: {g.epilogue for g in ansor.read(LOGS / f"v100.{name}.jsonl").groups} for name in ("conv2d", "conv2d-add")}
    assert epilogues == {"conv2d": {""}, "conv2d-add": {"add"}}
    (tmp_path / "renamed").write_text((LOGS / "v100.conv2d-add-relu.jsonl").read_text())
    assert {g.epilogue for g in ansor.read(tmp_path / "renamed").groups} == {"add relu"}
