"""The benchmark of PyTorch modules, on tiny ones: who takes part, what is right, what is left to PyTorch, and what is reported."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import frameworks
import torch_contest
import torch_models
import torch_report
from contest import Settings
from report import RUN
from rows import OURS
from torch_contest import FROM_TORCH, RATIO_TO_PLAIN, TOLERANCE, Entry
from zoo import architectures
from zoo.architectures import Architecture

pytestmark = pytest.mark.peers

SETTINGS = Settings(threads=2, seconds=0.0, frameworks=("eager",))


class Tiny(nn.Module):
    def __init__(self, odd: bool = False) -> None:
        super().__init__()
        self.conv, self.odd = nn.Conv2d(3, 8, 3, padding=1), odd

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.conv(x).relu()
        return {"y": torch.special.i0(y) if self.odd else y, "mean": y.mean((2, 3))}


def tiny(odd: bool = False) -> Architecture:
    torch.manual_seed(0)
    module = Tiny(odd).eval().requires_grad_(False)
    return Architecture("tiny", "", module, {"x": torch.randn(1, 3, 9, 7)})


@pytest.fixture(autouse=True)
def short_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_contest, "SLOT_SECONDS", 1e-4)
    monkeypatch.setattr(torch_contest, "MIN_ROUNDS", 2)


def test_a_row() -> None:
    with torch.inference_mode():
        row = Entry(tiny(), SETTINGS).measure()
    assert "error" not in row and "left" not in row and "left_whole" not in row
    assert set(row["seconds"]) == {OURS, FROM_TORCH, "eager", "eager last"}
    assert row["ratio_to_best_peer"] == pytest.approx(row["seconds"][row["best_peer"]] / row["seconds"][OURS])
    assert row["graphs"] == 1 and row["kernels"] >= 2 and row["parameters"] == 8 * 27 + 8
    assert max(row["difference"].values()) < 1e-5
    assert set(row["seconds_preparing"]) == {OURS, FROM_TORCH, "eager"}
    assert RATIO_TO_PLAIN not in row  # inductor took no part


def test_what_is_left_to_pytorch_is_counted() -> None:
    with torch.inference_mode():
        row = Entry(tiny(odd=True), SETTINGS).measure(timed=False)
    assert row["left"] == {"i0.default": 1} and row["seconds"] == {}
    assert "i0.default x1" in torch_report.left_text(row)
    with torch.inference_mode():
        assert "from_torch: UnsupportedNodes" in Entry(tiny(odd=True), SETTINGS).measure()["error"]


def test_a_wrong_answer_is_not_timed() -> None:
    entry = Entry(tiny(), SETTINGS)
    right = entry.architecture.module(**entry.architecture.inputs)
    wrong = {"y": right["y"] * (1 + 2 * TOLERANCE), "mean": right["mean"]}
    assert list(entry.check({"eager": lambda: right, OURS: lambda: wrong, "inductor": lambda: wrong})) == ["eager"]
    assert entry.errors == [f"wrong answer: {OURS} is off by 2.0e-04 of the largest output"]
    assert entry.notes == {"inductor": "wrong answer: inductor is off by 2.0e-04 of the largest output"}


def test_without_a_compiler_inductor_takes_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks.about, "compiler", lambda: None)
    entry = Entry(tiny(), Settings(threads=2, seconds=0.0, frameworks=("inductor",)))
    with torch.inference_mode():
        assert set(entry.contestants()) == {OURS, FROM_TORCH}
    assert entry.notes == {"inductor": "torch.compile needs a C++ compiler, and there is none"}


@pytest.mark.long
def test_inductor_takes_part_as_it_comes_frozen_and_autotuned() -> None:
    from torch._dynamo.utils import counters

    counters.clear()
    entry = Entry(tiny(), Settings(threads=2, seconds=0.0, frameworks=torch_contest.PEERS))
    with torch.inference_mode():
        row = entry.measure()
    ways = {"inductor", "inductor last", "inductor frozen", "inductor autotuned"}
    assert ways <= set(row["seconds"]) and RATIO_TO_PLAIN in row
    assert counters["inductor"]["mkldnn_conv_weight_pack_matcher_count"] == 2  # of the two frozen ones alone


def test_the_script_writes_rows_and_tables(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(architectures, "_MAKERS", {"tiny": ("", lambda: (Tiny(), {"x": torch.randn(1, 3, 9, 7)}))})
    file = tmp_path / "out.json"
    assert torch_models.main(["--check", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert set(rows) == {RUN, "tiny"}
    assert "within 0.0001 of eager: 1 of 1" in capsys.readouterr().out
    torch_models.main(["--markdown", str(file)])
    printed = capsys.readouterr().out
    assert "| tiny | 0.0 M | 1 |" in printed and "without anything left to PyTorch: 1 of 1" in printed


def test_tables_of_times() -> None:
    def row(ours: float, eager: float, inductor: float, frozen: float) -> dict[str, object]:
        seconds = {OURS: ours, "eager": eager, "inductor": inductor, "inductor frozen": frozen}
        ratios = {RATIO_TO_PLAIN: min(eager, inductor) / ours, "ratio_to_best_peer": min(eager, inductor, frozen) / ours}
        return {"seconds": seconds, "graphs": 1, "kernels": 3, "difference": {OURS: 1e-6}, "disturbed": 0.0, **ratios}

    rows = {"a": row(1e-3, 2e-3, 4e-3, 0.5e-3), "b": row(1e-3, 8e-3, 9e-3, 2e-3)}
    head, first, _, means = torch_report.lines(rows, torch_report.TIMED)
    assert dict(zip(head, first)) == {
        "architecture": "a", "ours, ms": "1.00", "eager": "2.00", "inductor": "4.00", "inductor frozen": "0.50",
        "to eager and inductor": "2.00", "to the best of all": "0.50",
    }  # fmt: skip
    assert dict(zip(head, means))["to eager and inductor"] == "4.00"
    said = torch_report.verdict(rows)
    assert "ahead of eager and inductor as they come: 2 of 2" in said and "inductor autotuned: 1 of 2" in said


@pytest.mark.parametrize("words", [["--models", "lenet"], ["--peers", "tvm"]])
def test_what_there_is_not_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        torch_models.main(words)
    assert "there is no" in capsys.readouterr().err


def test_the_architectures_are_eighteen_and_weights_are_the_same_every_time() -> None:
    assert len(architectures.names()) == 18
    first, again = (architectures.get("dcgan") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.module.parameters(), again.module.parameters()))
    assert np.array_equal(first.inputs["z"], again.inputs["z"])
