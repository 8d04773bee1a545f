"""From a record file to the data of a report: tasks, shares, sources of times, failures, forecasts, programs."""

from __future__ import annotations

import dataclasses
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.report.samples import LARGE, SMALL, STEPS, TARGET, TIMING, candidate, default, fill, tuned

from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.model import Model
from tensorsmith.ops import catalogue
from tensorsmith.records import Store, Timing, candidate_key
from tensorsmith.report import collect
from tensorsmith.report.candidates import Candidates, in_order
from tensorsmith.report.data import (
    ALONE,
    DEFAULT,
    ESTIMATED,
    FIRST,
    IN_NETWORK,
    Change,
    Forecast,
    Kernel,
    Report,
    Roof,
    Runner,
    reached,
)
from tensorsmith.rewrites.formulations import formulations, likely
from tensorsmith.runtime.profile import Profile, StepTime
from tensorsmith.search.trial import Status, Trial


def collected(path: Path, **options: object) -> Report:
    with Store.open(path, read_only=True) as store:
        return collect.of_records(store, **options)  # type: ignore[arg-type]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return collected(tuned(tmp_path / "tune.db"))


def test_one_setting_with_the_costliest_task_first(report: Report) -> None:
    (setting,) = report.settings
    assert (setting.target, setting.timing, setting.trials) == (TARGET.key, str(TIMING), 10)
    assert (setting.first, setting.last) == (1000.0, 9031.0)
    large, small = setting.tasks
    assert (large.name, large.key, large.shapes) == ("D f32[64, 64]", LARGE.key, "64x64, 64x64 -> 64x64")
    assert (small.name, small.key, small.weight) == ("C f32[32, 16]", SMALL.key, 1)
    assert (large.flops, large.bytes) == (2 * 64**3, 3 * 64 * 64 * 4)


def test_a_step_of_the_network_counts_before_a_time_alone(report: Report) -> None:
    large, small = report.settings[0].tasks
    assert (small.source, small.seconds, small.before) == (IN_NETWORK, 2.5e-3, 6e-3)
    assert (small.network_best, small.network_default, small.best) == (2.5e-3, 6e-3, 1.5e-3)
    assert (large.source, large.seconds, large.before) == (ALONE, 3e-3, 9e-3)
    assert large.share == pytest.approx(3 / 5.5) and small.share == pytest.approx(2.5 / 5.5)
    assert report.settings[0].before == pytest.approx(15e-3) and report.settings[0].after == pytest.approx(5.5e-3)


def test_what_stands_for_the_time_without_a_search(report: Report) -> None:
    large, small = report.settings[0].tasks
    assert (small.default, small.default_is) == (5e-3, DEFAULT)  # by the final
    assert (large.default, large.default_is) == (9e-3, FIRST)


def test_curves_are_those_of_the_search(report: Report) -> None:
    large, small = report.settings[0].tasks
    assert [(p.number, p.elapsed, p.seconds, p.best) for p in small.points] == [
        (1, 0.0, 5e-3, 5e-3),
        (2, 0.0, 8e-3, 5e-3),
        (3, 0.0, None, 5e-3),
        (4, 20.0, 2e-3, 2e-3),
        (5, 20.0, None, 2e-3),
        (6, 20.0, None, 2e-3),
        (7, 30.0, 1.5e-3, 1.5e-3),
    ]
    assert [(i.number, i.changes) for i in small.improvements][-1] == (7, (Change("C.i.1", "2", "4"),))
    assert [(p.elapsed, p.at_least) for p in large.points] == [(10.0, False), (20.0, False), (20.0, True)]
    assert [(t.elapsed, t.trials, t.seconds) for t in report.settings[0].totals] == [
        (10.0, 4, pytest.approx(14e-3)),
        (20.0, 5, pytest.approx(11e-3)),
        (20.0, 8, pytest.approx(5e-3)),
        (30.0, 10, pytest.approx(4.5e-3)),
    ]


def test_failures_by_cause(report: Report) -> None:
    large, small = report.settings[0].tasks
    assert (small.trials, small.failed) == (7, 3)
    assert [(f.status, f.cause, f.count) for f in small.failures] == [
        ("refused", "# registers <b>", 2),
        ("crashed", "segmentation fault", 1),
    ]
    example = candidate(SMALL, 6)
    assert small.failures[0].example == candidate_key(example)
    assert small.failures[0].decisions == "C.i.1=6 C.j.1=8 C.parallel=1 C.unroll=1"
    assert large.failures == ()


def test_the_winner_beside_the_default(report: Report) -> None:
    small = report.settings[0].tasks[1]
    assert small.winner is not None and small.plain is not None
    assert (small.winner.candidate, small.winner.seconds) == (candidate_key(candidate(SMALL, 4)), 2.5e-3)
    assert small.plain.seconds == 6e-3
    for listing in (small.winner, small.plain):
        assert "output C: f32[32, 16]" in listing.loops and "tile reduce" in listing.loops
        assert "registers" in listing.explanation and "traffic" in listing.explanation
    assert "unroll C.i.1 < 4, vector C.j.1 < 8" in small.winner.loops
    assert "C.j.1" in {c.what for c in small.differences}
    large = report.settings[0].tasks[0]
    assert large.plain is not None and large.plain.seconds is None  # the default of that one was not timed


def test_forecasts_are_of_what_was_timed(report: Report) -> None:
    small = report.settings[0].tasks[1]
    assert [f.measured for f in small.forecasts] == [1.5e-3, 2e-3, 5e-3, 8e-3]
    assert [f.measured for f in report.settings[0].tasks[0].forecasts] == [3e-3, 9e-3]  # not of what was cut short
    assert all(0 < f.expected < 1 for f in small.forecasts)


def test_a_roof_is_estimated_unless_it_was_measured(tmp_path: Path) -> None:
    path = tuned(tmp_path / "tune.db")
    roof = collected(path).settings[0].roof
    assert roof.source == "estimated" and roof.flops > 1e10 and roof.bytes > 1e9
    peak = {"flops": 2e11, "flops_one_core": 1.2e11, "bytes": 3e10}
    roof = collected(path, peak=(TARGET.key, peak)).settings[0].roof
    assert (roof.flops, roof.bytes, roof.source) == (2.4e11, 3e10, "measured")
    assert collected(path, peak=("some other machine", peak)).settings[0].roof.source == "estimated"
    with pytest.raises(UserError, match=r"give what ts\.measure_peak"):
        collected(path, peak=(TARGET.key, {"flops": 1.0}))


def test_the_order_of_forecasts() -> None:
    def of(*pairs: tuple[float, float]) -> float | None:
        return in_order([Forecast("", expected, measured) for expected, measured in pairs])

    assert of((1, 10), (2, 20), (3, 30)) == 1.0
    assert of((3, 10), (2, 20), (1, 30)) == 0.0
    assert of((1, 10), (3, 20), (2, 30)) == pytest.approx(2 / 3)
    assert of((1, 10), (2, 10), (3, 30)) == 1.0  # equal times have no order
    assert of((1, 10), (1, 20)) == 0.0  # and equal forecasts tell none
    assert of((1, 10)) is None and of() is None


def test_every_timing_and_target_by_itself(tmp_path: Path) -> None:
    cold, other = Timing("cold", 2), dataclasses.replace(TARGET, cpu="znver9")
    with Store.open(tmp_path / "tune.db") as store:
        store.add(SMALL, TARGET, TIMING, [default(SMALL, 1e-3)])
        store.add(LARGE, TARGET, cold, [default(LARGE, 2e-3)])
        store.add(LARGE, other, STEPS, [default(LARGE, 3e-3)], run="winner")
    found = collected(tmp_path / "tune.db").settings
    assert [(s.target, s.timing, [t.seconds for t in s.tasks]) for s in found] == [
        (TARGET.key, "warm cache, 2 threads", [1e-3]),
        (TARGET.key, "cold cache, 2 threads", [2e-3]),
        (other.key, "in a network, 2 threads", [3e-3]),
    ]
    alone = found[2].tasks[0]
    assert (alone.source, alone.trials, alone.points, alone.before) == (IN_NETWORK, 0, (), 3e-3)
    assert alone.best is None and alone.default is None


def test_formulations_are_one_task(tmp_path: Path) -> None:
    workload = catalogue.get("C2D-3-b1").workload()
    chosen = likely(workload)
    assert chosen.name != formulations(workload)[0].name
    with Store.open(tmp_path / "tune.db") as store:
        moments = [
            (1000.0, workload, TIMING, [default(workload, 3e-3)], ""),
            (1001.0, chosen.workload, TIMING, [default(chosen.workload, 1e-3)], ""),
        ]
        fill(store, moments)
    (task,) = collected(tmp_path / "tune.db").settings[0].tasks
    assert (task.key, task.trials, task.best) == (workload.key, 2, 1e-3)
    assert task.improvements[1].changes == (Change("formulation", "direct", chosen.name),)
    assert task.winner is not None and task.winner.formulation == chosen.name
    assert (task.default, task.default_is) == (1e-3, DEFAULT)


def dense(*widths: int) -> Model:
    """Dense layers with ReLUs between them; layers of the same widths are the same task."""
    b = Builder("net")
    h = b.input("x", (4, widths[0]), "f32")
    for before, after in pairwise(widths):
        h = b.add("relu", [b.add("matmul", [h, b.constant(np.ones((before, after), np.float32))])])
    b.output("y", h)
    return Model.from_graph(b.graph())


def test_a_model_names_and_weighs_its_tasks(tmp_path: Path) -> None:
    model = dense(32, 32, 32, 32, 48)
    often, once = model.tasks()
    with Store.open(tmp_path / "tune.db") as store:
        store.add(SMALL, TARGET, TIMING, [default(SMALL, 1.0)])  # of something else
        store.add(often.workload, TARGET, TIMING, [default(often.workload, 1e-3)])
    report = collected(tmp_path / "tune.db", model=model)
    (setting,) = report.settings
    first, second = setting.tasks
    assert (report.title, report.model) == ("net", "net")
    assert (first.name, first.weight, first.source, first.seconds) == (often.name, 3, ALONE, 1e-3)
    assert (second.name, second.weight, second.source) == (once.name, 1, ESTIMATED)
    assert second.seconds is not None and second.before is None and second.winner is None and second.plain is not None
    whole = 3e-3 + second.seconds
    assert (first.share, second.share) == (pytest.approx(3e-3 / whole), pytest.approx(second.seconds / whole))
    assert setting.before == setting.after == pytest.approx(whole)
    assert [(t.trials, t.seconds) for t in setting.totals] == [(1, pytest.approx(3e-3))]


def test_a_model_without_records_is_told(tmp_path: Path) -> None:
    path = tuned(tmp_path / "tune.db")
    with pytest.raises(UserError, match=r"tune.db has no record of any task of net"):
        collected(path, model=dense(8, 8))


def test_a_profile_alone() -> None:
    conv = StepTime(0, "conv", "f32[8]", 3e-3, 6000, "record", 3000)
    steps = (conv, StepTime(None, "copy", "", 1e-3), dataclasses.replace(conv, seconds=4e-3))
    report = collect.of_profile(Profile("net", steps), [Runner("tensorsmith", 1e-3, 2e-3)])
    assert (report.title, report.settings, report.race) == ("net", (), (Runner("tensorsmith", 1e-3, 2e-3),))
    first, second = report.kernels
    assert (first.name, first.calls, first.seconds, first.share, first.flops) == ("conv f32[8]", 2, 7e-3, 0.875, 12000)
    assert (first.bytes, first.intensity, first.rate) == (6000, 2.0, pytest.approx(12000 / 7e-3))
    assert (second.name, second.intensity, second.rate) == ("copy", None, None)
    with pytest.raises(UserError, match="no steps"):
        collect.of_profile(Profile("net", ()))


def test_nothing_to_report(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tune.db"):
        pass
    with pytest.raises(UserError, match=r"tune.db holds no records yet"):
        collected(tmp_path / "tune.db")


def test_what_cannot_be_used_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with Store.open(path) as store:
        store.add(SMALL, TARGET, TIMING, [default(SMALL, 1e-3), Trial(candidate(SMALL), Status.OK, 2e-3)])
        store._connection.execute("UPDATE record SET candidate = '{}' WHERE seconds = 2e-3")
    (left_out,) = collected(path).skipped
    assert left_out[0].startswith("candidate") and left_out[1] == 1
    with Store.open(path) as store:
        store._connection.execute("UPDATE record SET candidate = '{}'")
    with pytest.raises(UserError, match=r"no record of .* can be used, for example: candidate"):
        collected(path)


def test_candidates_are_worked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, kept = tuned(tmp_path / "tune.db"), Candidates()
    first = collected(path, candidates=kept)
    module = sys.modules[Candidates.__module__]
    monkeypatch.setattr(module, "lower", None)
    monkeypatch.setattr(module, "backend_of", None)
    again = collected(path, candidates=kept)
    assert again.settings == first.settings


@pytest.mark.parametrize(
    ("seconds", "flops", "moved", "share", "why"),
    [
        (6e-6, 12000, 6000.0, 0.5, ""),
        (3e-6, 12000, 6000.0, 1.0, ""),
        (2e-6, 6000, 6000.0, 1.5, "its data stay in the caches"),
        (
            1e-6,
            12000,
            600.0,
            3.0,
            "it does fewer operations than the definition, which are counted, or the roof was estimated too low",
        ),
    ],
)
def test_a_share_of_the_roof_above_1_has_a_reason(seconds: float, flops: int, moved: float, share: float, why: str) -> None:
    kernel, roof = Kernel("k", "", 1, seconds, 1.0, flops, "", moved), Roof(4e9, 2e9, "estimated")
    found = reached(kernel, roof)
    assert found is not None and found.share == pytest.approx(share) and found.why == why
    busy = reached(kernel, dataclasses.replace(roof, source="measured"))
    assert busy is not None and busy.why == why.replace("estimated too low", "measured while the machine was busy")
    assert reached(dataclasses.replace(kernel, bytes=0.0), roof) is None


def test_another_formulation_is_the_reason(tmp_path: Path) -> None:
    with Store.open(tuned(tmp_path / "tune.db"), read_only=True) as store:
        (setting,) = collect.of_records(store).settings
    task = setting.tasks[0]
    assert task.winner is not None
    made = dataclasses.replace(task, winner=dataclasses.replace(task.winner, formulation="winograd4"))
    found = reached(made, Roof(1e3, 1e15, "measured"))
    assert found is not None and found.why == "winograd4 does fewer operations than the definition, which are counted"
