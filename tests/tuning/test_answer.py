"""Whose program a run gives: the policy's, the default schedule, or an earlier record. Times are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.measure.small import matmul
from tests.tuning.fakes import FakeMeasurer

import tensorsmith as ts
from tensorsmith.backends import backend_of
from tensorsmith.build import build
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.ops import conv
from tensorsmith.records.keys import Timing, candidate_key
from tensorsmith.records.record import WINNER
from tensorsmith.records.store import Store
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.policy import Preset, as_preset
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native
from tensorsmith.tuning.answer import whose_program
from tensorsmith.tuning.tasks import formulation

WORKLOAD = matmul()
TIMING = Timing("warm", native().cores)
DEFAULT = candidate_key(backend_of(native()).default_candidate(WORKLOAD, native()))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[FakeMeasurer]:
    """Measurers whose programs all take 20 us, the default schedule 10."""
    made: list[FakeMeasurer] = []

    def make(*given: Any, **options: Any) -> FakeMeasurer:
        made.append(FakeMeasurer(lambda n: 2e-5 - 1e-7 * n))
        made[-1].again = lambda n, c: Trial(c, Status.OK, 1e-5 if candidate_key(c) == DEFAULT else 2e-5 + 1e-7 * n)
        return made[-1]

    monkeypatch.setattr(formulation, "Measurer", make)
    monkeypatch.setattr("tensorsmith.measure.workshop.Workshop.start", lambda self: None)
    return made


def test_the_default_schedule_is_said_to_be_the_answer(fakes: list[FakeMeasurer], capsys: pytest.CaptureFixture[str]) -> None:
    exe = ts.tune(WORKLOAD, trials=8, policy="random")
    said = capsys.readouterr().out
    assert "the default schedule is the best found: random found nothing surely faster" in said
    assert "--policy-only" in said and "the default schedule 10 us" in said
    assert exe.program == ts.compile(WORKLOAD).program


def test_without_a_fallback_the_answer_is_the_policys_own(
    fakes: list[FakeMeasurer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "tune.db"
    exe = ts.tune(WORKLOAD, trials=8, policy="random", fallback=False, database=database)
    assert "the answer is a program that random found in this run" in capsys.readouterr().out
    assert exe.program != ts.compile(WORKLOAD).program
    assert all(candidate_key(c) != DEFAULT for final in fakes[0].finals for c in final)  # it took no part
    with Store.open(database) as store:
        records = store.top(WORKLOAD, native(), TIMING, 99)
    assert not any(r.run == WINNER for r in records)  # nobody has met the default schedule


def test_records_of_others_are_not_the_policys_own(fakes: list[FakeMeasurer], tmp_path: Path) -> None:
    database = tmp_path / "tune.db"
    ts.tune(WORKLOAD, trials=8, policy="random", seed=1, database=database, on_progress=lambda p: None)
    with Store.open(database) as store:
        before = {r.key for r in store.top(WORKLOAD, native(), TIMING, 99)}
    found: list[str] = []

    class Noted(RandomPolicy):
        def ask(self, count: int, stop: Any = lambda: False) -> list[Candidate]:
            asked = super().ask(count, stop)
            found.extend(map(candidate_key, asked))
            return asked

    exe = ts.tune(WORKLOAD, trials=4, policy=Noted, fallback=False, database=database, on_progress=lambda p: None)
    assert found and not before & set(found)
    assert exe.program in {build(c, native()).program for c in fakes[-1].measured}


def test_a_policy_that_finds_nothing_is_an_error_that_names_it(fakes: list[FakeMeasurer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeMeasurer, "results", _all_fail)
    with pytest.raises(UserError, match=r"policy random found no program that runs for .*, in 8 trials; .*leave out fallback") as e:
        ts.tune(WORKLOAD, trials=8, policy="random", fallback=False, on_progress=lambda p: None)
    assert "leave out --policy-only" in told(e.value)
    ts.tune(WORKLOAD, trials=8, policy="random", on_progress=lambda p: None)  # the default schedule stands in


def _all_fail(self: FakeMeasurer, stop: Any) -> Any:
    while self._waiting:
        yield Trial(self._waiting.pop(0), Status.REFUSED, cause="too large")


def test_policies_bring_their_formulations(fakes: list[FakeMeasurer]) -> None:
    """Winograd's convolution is none of Ansor's; whoever asks for it gets it."""
    assert (
        as_preset("tensorsmith").formulations == as_preset("random").formulations == as_preset(RandomPolicy).formulations == "all"
    )
    for policy in (
        "ansor",
        "ansor-limited",
        "autotvm",
        "autotvm-grid",
        "flextensor-p",
        "halide-beam",
        "beam",
        "metaschedule-replay",
    ):
        assert as_preset(policy).formulations == "direct"
    x, weight = ts.placeholder((1, 16, 16, 16), name="X"), ts.placeholder((3, 3, 16, 16), name="W", constant=True)
    convolution = [x, weight, conv.conv2d(x, weight, padding=1)]

    def measurers(**options: Any) -> int:
        fakes.clear()
        ts.tune(convolution, trials=24, on_progress=lambda p: None, **options)
        return len(fakes)

    direct = Preset("other", RandomPolicy, model="random", transfer=False, formulations="direct")
    assert measurers(policy="random") > 1 and measurers(policy=direct) == 1
    assert measurers(policy=direct, formulations="all") > 1 and measurers(policy="random", formulations="direct") == 1


def test_a_record_of_an_earlier_run_is_called_so() -> None:
    assert "record of an earlier run: ansor found nothing faster" in whose_program("ansor", False, False, None, None)
    assert "--policy-only" not in whose_program("tensorsmith", True, True, 1e-5, 1e-5)
