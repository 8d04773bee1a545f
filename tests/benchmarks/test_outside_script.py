"""`outside.py` with stand-ins for TVM and Halide: who has how much to search with, and what is in a row."""

from __future__ import annotations

import numpy as np
import pytest

import ops
import outside
from contest import Settings
from peers import Peer
from rows import OURS, UNTUNED
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float | None]]:
    """Trials and seconds of our searches; they end at once with the default schedule. TVM answers rightly, Halide wrongly."""
    asked: list[tuple[int, float | None]] = []

    def search(self: ops.Search, workload: object) -> object:
        asked.append((self.trials, self.seconds))
        return outside.ts.compile(workload)  # type: ignore[arg-type]

    def peers_for(case, arrays, threads, frameworks, trials):  # type: ignore[no-untyped-def]
        workload = case.workload()
        want = evaluate(workload, random_inputs(workload), precise=True)[workload.outputs[0]]
        answers = {"tvm-wheel": want, "halide-wheel": want + 1}
        return [Peer(name, lambda: None, lambda name=name: np.asarray(answers[name])) for name in frameworks], {}

    monkeypatch.setattr(ops.Search, "__call__", search)
    monkeypatch.setattr(outside, "peers_for", peers_for)
    return asked


def row(peers: tuple[str, ...]) -> dict[str, object]:
    settings = Settings(1, 0.0, peers)
    return outside.measured(catalogue.get("GMM-small"), 5, peers, settings)


def test_ours_has_as_many_trials_and_in_another_search_as_many_seconds(searches: list[tuple[int, float | None]]) -> None:
    found = row(("tvm-wheel", "halide-wheel"))
    took = found["searching"]["tvm-wheel"]  # type: ignore[index]
    assert searches == [(5, None), (outside._AS_MANY_AS_FIT, took)]
    assert set(found["seconds"]) == {OURS, outside.EQUAL_SECONDS, UNTUNED, "tvm-wheel"}  # type: ignore[arg-type]
    assert "wrong answer" in found["notes"]["halide-wheel"]  # type: ignore[index]
    assert found["same_program"] and found["formulation"] == found["untuned_formulation"] == "direct"


def test_without_tvm_there_are_no_equal_seconds(searches: list[tuple[int, float | None]]) -> None:
    found = row(("halide-wheel",))
    assert searches == [(5, None)] and outside.EQUAL_SECONDS not in found["seconds"]  # type: ignore[operator]


def test_wrong_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        outside.main(["--only", "nothing"])
    assert "there is no case or operator 'nothing'" in capsys.readouterr().err
