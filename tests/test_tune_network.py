"""Tuning of networks: real workers once, then with times of our own: who gets trials, when it ends, what is kept and said."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.tuning.fakes import DEFAULT_POLICY, FakeMeasurer

import tensorsmith as ts
from tensorsmith.errors import Refusal, UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import Timing, candidate_key
from tensorsmith.records.record import FINALS
from tensorsmith.records.store import Store
from tensorsmith.runtime.variants.symbols import OpenArgument
from tensorsmith.search.objectives import Targets, named
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.scheduler import Schedule
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native
from tensorsmith.tune import NetworkProgress
from tensorsmith.tuning import run
from tensorsmith.tuning.progress.network import UNCHANGED, Settled, TaskSummary, table
from tensorsmith.tuning.roofline import Roofline
from tensorsmith.tuning.tasks import formulation
from tensorsmith.tuning.tasks.opened import OpenTunings

RNG = np.random.default_rng(7)
TIMING = Timing("warm", native().cores)


def dense(*widths: int, rows: int = 4, name: str = "dense") -> ts.Model:
    """Dense layers with ReLUs between them; layers of the same widths are the same task."""
    b = Builder(name)
    h = b.input("x", (rows, widths[0]), "f32")
    for before, after in pairwise(widths):
        h = b.add("relu", [b.add("matmul", [h, b.constant(RNG.uniform(-1, 1, (before, after)).astype(np.float32))])])
    b.output("y", h)
    return ts.Model.from_graph(b.graph())


MODEL = dense(32, 32, 32, 32, 48, 8)  # three layers of 32 to 32, one to 48, one to 8
X = RNG.uniform(-1, 1, (4, 32)).astype(np.float32)


def check(executable: Any, model: ts.Model = MODEL) -> None:
    (wanted,) = model.evaluate([X]).values()
    np.testing.assert_allclose(executable(X), wanted, rtol=1e-4, atol=1e-4)


def measured(database: Path, model: ts.Model = MODEL) -> dict[str, list[str]]:
    """The candidates in the order of measuring, of each task."""
    with Store.open(database, read_only=True) as store:
        found = {t.workload.key: store.history(t.workload, native(), TIMING) for t in model.tasks()}
        return {key: [r.key for r in records if r.run not in FINALS] for key, records in found.items()}


def test_with_real_workers(tmp_path: Path) -> None:
    seen: list[NetworkProgress] = []
    model, database = dense(16, 16, 8, rows=4), tmp_path / "tune.db"
    executable = ts.tune(model, trials=10, database=database, on_progress=seen.append)
    x = RNG.uniform(-1, 1, (4, 16)).astype(np.float32)
    (wanted,) = model.evaluate([x]).values()
    np.testing.assert_allclose(executable(x), wanted, rtol=1e-4, atol=1e-4)
    assert {k.schedule for k in executable.network.kernels} == {"record"}
    assert seen[-1].trials == 10 and seen[-1].measured == seen[-1].tasks == 2 and seen[-1].networks == ("dense",)
    assert 0 < seen[-1].latencies[0] <= seen[-1].first[0]
    counts = {key: len(keys) for key, keys in measured(database, model).items()}
    assert sum(counts.values()) == 10 and min(counts.values()) >= 4


# -- with times of our own ----------------------------------------------------------------------------------------------------

Times = Callable[[Workload, int], float | None]  # of a workload's n-th trial


class Bench:
    """All trials of a run, in order, with the workload that each is of."""

    def __init__(self) -> None:
        self.order: list[Workload] = []
        self.fakes: list[FakeMeasurer] = []

    def counts(self) -> Counter[Workload]:
        return Counter(self.order)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    """Lets all runs measure by a function, with a cheap search and a low roof, and no worker ever start."""

    def make(
        seconds: Times,
        after: Callable[[int], None] = lambda n: None,
        peak: float = 1e18,
        again: Callable[[Workload], float] | None = None,
    ) -> Bench:
        """`again`: what comes out for the candidates of a final."""
        bench = Bench()
        done: Counter[str] = Counter()

        def measurer(workload: Workload, *arguments: Any, **options: Any) -> FakeMeasurer:
            def time(n: int) -> float | None:
                bench.order.append(workload)
                done[workload.key] += 1
                return seconds(workload, done[workload.key] - 1)

            fake = FakeMeasurer(time, lambda n: after(len(bench.order)))
            if again is not None:
                fake.again = lambda n, c: Trial(c, Status.OK, again(workload))
            bench.fakes.append(fake)
            return fake

        monkeypatch.setattr(formulation, "Measurer", measurer)
        monkeypatch.setitem(*DEFAULT_POLICY)
        monkeypatch.setattr("tensorsmith.measure.workshop.Workshop.start", lambda self: None)
        monkeypatch.setattr(Roofline, "measured", lambda target, cache: Roofline(target, cache, peak, 1e18))
        return bench

    return make


def size(workload: Workload) -> int:
    return workload.buffers[workload.outputs[0]].shape[-1]


def constant(workload: Workload, n: int) -> float:
    """Widths in microseconds, however often it is tried."""
    return 1e-6 * size(workload)


def improving(workload: Workload, n: int) -> float:
    return 1e-6 * size(workload) / (n + 1)


def tune(model: Any = MODEL, **options: Any) -> list[NetworkProgress]:
    seen: list[NetworkProgress] = []
    ts.tune(model, on_progress=seen.append, **options)
    return seen


def test_the_trials_that_were_wanted(bench) -> None:
    made = bench(improving)
    seen = tune(trials=75)
    assert len(made.order) == 75 == seen[-1].trials == seen[-1].wanted
    assert min(made.counts().values()) >= 4 and len(made.counts()) == 3


def test_latencies_are_weighted_sums(bench) -> None:
    bench(lambda w, n: 1e-6 * size(w) * (2 if n == 0 else 1))
    seen = tune(trials=30)
    assert seen[-1].latencies == pytest.approx((1e-6 * (3 * 32 + 48 + 8),))
    assert seen[-1].first[0] >= seen[-1].latencies[0] and seen[-1].failures == {}


def test_the_task_with_the_largest_share_gets_most(bench) -> None:
    """Three calls of 32 us, one of 48, one of 8."""
    made = bench(constant)
    tune(trials=200, schedule=Schedule(epsilon=0.0))
    given = {size(w): n for w, n in made.counts().items()}
    assert given[32] > given[48] > given[8] >= 4


def test_round_robin_gives_all_the_same(bench) -> None:
    made = bench(constant)
    tune(trials=12 + 96, schedule="round-robin")
    assert set(made.counts().values()) == {36}


def test_a_budget_too_small_for_all_goes_to_the_largest(bench) -> None:
    made = bench(constant)
    check(ts.tune(MODEL, trials=6, on_progress=lambda p: None))
    assert [size(w) for w in made.order] == [32] * 4 + [48] * 2


def test_several_models_share_their_tasks(bench) -> None:
    other = dense(32, 32, 16, name="other")
    made = bench(constant)
    seen: list[NetworkProgress] = []
    first, second = ts.tune([MODEL, other], trials=40, on_progress=seen.append)
    check(first)
    check(second, other)
    assert sorted(size(w) for w in made.counts()) == [8, 16, 32, 48]
    assert seen[-1].networks == ("dense", "other")
    assert seen[-1].latencies == pytest.approx((1e-6 * (3 * 32 + 48 + 8), 1e-6 * (32 + 16)))


def test_a_function_as_objective(bench) -> None:
    """Only the second network counts, and 16 is the only task of its own that takes time."""
    other = dense(32, 32, 16, name="other")
    made = bench(lambda w, n: 1e-9 if size(w) == 32 else constant(w, n))
    tune([MODEL, other], trials=120, objective=lambda latencies: latencies[1], schedule=Schedule(epsilon=0.0))
    given = {size(w): n for w, n in made.counts().items()}
    assert given[16] > 80


def test_a_latency_target_ends_the_run(bench) -> None:
    made = bench(improving)
    seen = tune(trials=1000, objective=Targets((100e-6,)))
    assert len(made.order) < 100 and seen[-1].latencies[0] <= 100e-6


def test_it_goes_on_where_it_was(bench, tmp_path: Path) -> None:
    database = tmp_path / "tune.db"
    bench(constant)
    tune(trials=44, database=database)
    before = measured(database)
    made = bench(lambda w, n: 1.0)  # slower than all that is known
    seen = tune(trials=32, database=database)
    after = measured(database)
    assert sum(map(len, after.values())) == 76 and all(after[key][: len(keys)] == keys for key, keys in before.items())
    assert all(len(set(keys)) == len(keys) for keys in after.values())  # nothing was measured twice
    assert seen[0].measured == 3 and seen[-1].latencies[0] <= 1e-6 * (3 * 32 + 48 + 8)
    assert len(made.order) == 32 and made.order[:8] == made.order[:1] * 8  # no second warm-up


def test_tunings_that_were_closed_go_on_where_they_were(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One alive at a time, and no record file."""
    monkeypatch.setattr(run, "OpenTunings", lambda make, promise: OpenTunings(make, promise, most=1))
    made = bench(improving)
    seen = tune(trials=12 + 96, schedule="round-robin")
    assert len(made.fakes) > 6 and seen[-1].trials == 108
    assert seen[-1].failures == {} and seen[-1].times["search"] > 0
    keys = [(candidate_key(c), c.sketch.workload.key) for f in made.fakes for c in f.measured]
    assert len(set(keys)) == 108


def test_patience(bench) -> None:
    made = bench(constant)
    tune(trials=5000, patience=50)
    assert 12 + 50 <= len(made.order) <= 12 + 50 + 2 * 16 + 8


def test_patience_is_with_what_records_turned_out_to_be(bench, tmp_path: Path) -> None:
    """Ten times slower when timed again: what is faster than that is an improvement, if slower than the records were."""
    bench(constant)
    tune(trials=12, database=tmp_path / "tune.db")
    made = bench(lambda w, n: 10 * constant(w, n) * 0.998**n, again=lambda w: 10 * constant(w, 0))
    tune(trials=240, patience=50, schedule="round-robin", database=tmp_path / "tune.db")
    assert len(made.order) == 240


def test_nothing_left_to_gain(bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Every task is as fast as the machine allows."""
    made = bench(lambda w, n: 1.01 * Roofline(native(), "warm", 1e9, 1e18).bound(w), peak=1e9)
    ts.tune(MODEL, trials=5000)
    assert len(made.order) == 12
    assert "nothing is left to gain" in capsys.readouterr().out


def test_time_is_up(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    over: list[int] = []
    made = bench(constant, after=lambda n: over.append(n) if n >= 40 else None)
    monkeypatch.setattr("tensorsmith.tuning.budget.Clock.searched", property(lambda self: bool(over)))
    seen = tune(trials=500, seconds=1000.0)
    assert 40 <= len(made.order) <= 48 and seen[-1].trials == len(made.order)
    assert any(f.finals for f in made.fakes)  # there is time left for the finals


def test_no_time_and_no_trials(bench) -> None:
    made = bench(constant)
    for budget in ({"trials": 0}, {"seconds": 0.0}):
        check(ts.tune(MODEL, **budget))
    assert not made.fakes


def test_ctrl_c_keeps_what_is_measured(bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = bench(constant, after=lambda n: os.kill(os.getpid(), signal.SIGINT) if n == 20 else None)
    check(ts.tune(MODEL, trials=500, database=tmp_path / "tune.db"))
    assert sum(map(len, measured(tmp_path / "tune.db").values())) == len(made.order) < 40
    assert not any(f.finals for f in made.fakes)
    assert f"stopped after {len(made.order)} trials; everything measured is kept" in capsys.readouterr().out


def test_ctrl_c_twice(bench, tmp_path: Path) -> None:
    bench(constant, after=lambda n: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)] if n == 20 else None)
    with pytest.raises(KeyboardInterrupt):
        ts.tune(MODEL, trials=500, database=tmp_path / "tune.db")
    assert sum(map(len, measured(tmp_path / "tune.db").values())) >= 12
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_said_at_the_end(bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench(lambda w, n: None if n == 5 else 1e-6 * size(w) * (2 if n == 0 else 1))
    ts.tune(MODEL, trials=60, verbose=True)
    out = capsys.readouterr().out
    assert "dense 304 us -> 152 us, 2.00x, 3 tasks, 60/60 trials" in out
    assert "calls    best us  share trials  GFLOP/s speed-up  task" in out
    assert "matmul+relu f32[4, 32]" in out and "trials failed, for example:" in out and "refused: candidate" in out
    assert "search " in out and "s in all" in out


def test_a_task_that_cannot_be_tuned_keeps_its_default(
    bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = bench(constant)
    tuning = run.TaskTuning

    def failing(formulations: Any, *arguments: Any) -> Any:
        if size(formulations[0].workload) == 48:
            raise Refusal("too odd")
        return tuning(formulations, *arguments)

    monkeypatch.setattr(run, "TaskTuning", failing)
    executable = ts.tune(MODEL, trials=60)
    check(executable)
    assert sorted(k.schedule for k in executable.network.kernels) == ["default", "record", "record"]
    assert len(made.order) == 60 and 48 not in {size(w) for w in made.order}
    assert "task matmul+relu f32[4, 48] cannot be tuned, and stays as it is: Refusal('too odd')" in capsys.readouterr().out


def test_when_everything_fails_the_default_schedules_are_given(bench) -> None:
    bench(lambda w, n: None)
    seen: list[NetworkProgress] = []
    executable = ts.tune(MODEL, trials=24, on_progress=seen.append)
    check(executable)
    assert {k.schedule for k in executable.network.kernels} == {"default"}
    assert seen[-1].measured == 0 and seen[-1].failures == {"refused": 24} and str(seen[-1]).startswith("nothing measured yet")


def test_nothing_to_tune(bench) -> None:
    made = bench(constant)
    b = Builder("plain")
    x = b.input("x", (4, 32), "f32")
    b.output("y", b.add("relu", [x]))
    model = ts.Model.from_graph(b.graph())
    check(ts.tune(model, trials=50), model)
    assert not made.fakes


def test_effort_is_per_task(bench) -> None:
    bench(constant)
    assert tune(effort="quick")[-1].wanted == 3 * 16


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ([MODEL, "resnet"], {}, "a list of models to tune has a str in it"),
        (MODEL, {"objective": "best"}, "there is no objective 'best'"),
        (MODEL, {"schedule": "random"}, "there is no scheduling strategy 'random'"),
        (MODEL, {"cache": "hot"}, 'cache is "warm", "streamed" or "cold"'),
        (MODEL, {"trials": 24, "objective": Targets((1e-3, 1e-3))}, "2 target latencies for 1 networks"),
        (MODEL, {"trials": 24, "objective": lambda latencies: None}, "it has to give a finite number"),
        (MODEL.tasks()[0].workload, {"objective": "sum"}, "objective and schedule are for models"),
    ],
)
def test_bad_input(bench, given: Any, options: dict[str, Any], words: str) -> None:
    bench(constant)
    with pytest.raises(UserError, match=words):
        ts.tune(given, **options)


def test_latencies_count_all_tasks_from_the_start_and_never_rise(bench) -> None:
    """Whatever the estimates are: here every task takes longer than the ones before it would make believe."""
    bench(lambda w, n: 1e-6 * size(w) ** -2 * max(5, 50 - n))
    seen = tune(trials=120)
    assert [p.first_look for p in seen[:1]] == [True] and not seen[-1].first_look
    assert all(p.latencies[0] > 0 and len(p.latencies) == 1 for p in seen)
    shown = [p.latencies[0] for p in seen if not p.first_look]
    assert len(shown) > 3 and shown == sorted(shown, reverse=True)
    assert all("->" not in p.line(80) for p in seen if p.first_look) and all("->" in p.line(80) for p in seen if not p.first_look)
    assert all(p.first[0] >= p.latencies[0] for p in seen)


@pytest.mark.parametrize(
    ("settled", "line"),
    [
        (Settled(530e-6, 310e-6), "dense: 530 us -> 310 us, 1.7x in the network\n"),
        (Settled(530e-6, 310e-6, estimated=True), "dense: 530 us -> 310 us, 1.7x (estimated: the sum of its tasks)\n"),
        (UNCHANGED, "dense: 304 us -> 304 us, 1.0x (estimated: the sum of its tasks)\n"),
        (None, "dense: 304 us -> 152 us, 2.0x (estimated: the sum of its tasks)\n"),
    ],
)
def test_the_last_line_is_what_the_network_takes(
    bench, settled: Any, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(lambda w, n: 1e-6 * size(w) * (2 if n == 0 else 1), again=lambda w: 1e-6 * size(w))
    monkeypatch.setattr("tensorsmith.tuning.finals.in_network.settle", lambda *given, **more: settled)
    ts.tune(MODEL, trials=60)
    assert capsys.readouterr().out.endswith(line)


def test_a_run_that_is_stopped_ends_with_an_estimate(bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench(constant, after=lambda n: os.kill(os.getpid(), signal.SIGINT) if n == 40 else None)
    ts.tune(MODEL, trials=500)
    assert capsys.readouterr().out.endswith("dense: 152 us -> 152 us, 1.0x (estimated: the sum of its tasks)\n")


def test_the_table() -> None:
    lines = table(
        [
            TaskSummary("small", 1, 4, 0.0, 10e-6, None),
            TaskSummary("large", 3, 16, 2e6, 30e-6, 60e-6),
            TaskSummary("x", 2, 0, 5.0, None, None),
        ]
    ).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["3", "30.0", "90.0%", "16", "66.7", "2.00x", "large"],
        ["1", "10.0", "10.0%", "4", "-", "-", "small"],
        ["2", "-", "-", "0", "-", "-", "x"],
    ]


def test_the_line() -> None:
    progress = NetworkProgress(("a", "b"), (1.5e-3, 8e-6), (3e-3, 9e-6), 4, 6, "conv", 20, 40, 10.0, failures=Counter(refused=2))
    latencies, rest = str(progress).split(", 4 of 6 tasks, ")
    assert latencies == "a 3 ms -> 1.5 ms, 2.00x, b 9 us -> 8 us, 1.12x"
    assert rest == "20/40 trials, 2 failed, 2.0 trials/s, 10s left, conv"


# -- one network at several sizes -------------------------------------------------------------------------------------------


def opened(*named: int) -> OpenModel:
    """Two layers on rows of any number, and one on an input whose shape is always the same."""

    def make(sizes: Mapping[str, int]) -> ts.Model:
        b = Builder("open")
        h, z = b.input("x", (sizes["batch"], 32), "f32"), b.input("z", (8, 32), "f32")
        w, v = (b.constant(np.full((32, n), 0.125, np.float32), f"w{n}") for n in (32, 16))
        b.output("y", b.add("relu", [b.add("matmul", [b.add("relu", [b.add("matmul", [h, w])]), v])]))
        b.output("q", b.add("relu", [b.add("matmul", [z, v])]))
        return ts.Model.from_graph(b.graph())

    inputs = [OpenArgument("x", ("batch", 32), "f32"), OpenArgument("z", (8, 32), "f32")]
    return OpenModel("open", inputs, {"batch": named}, make)


def test_all_sizes_are_tuned_in_one_run_by_real_workers(tmp_path: Path) -> None:
    executable = ts.tune(opened(2, 4), trials=20, database=tmp_path / "tune.db")
    assert [v.sizes for v in executable.variants] == [{"batch": 2}, {"batch": 4}]
    assert {k.schedule for v in executable.variants for k in v.executable.network.kernels} <= {"record", "default"}
    assert any(k.schedule == "record" for v in executable.variants for k in v.executable.network.kernels)
    z = np.ones((8, 32), np.float32)
    for rows in (2, 3, 4):  # 3 was never tuned
        x = RNG.uniform(-1, 1, (rows, 32)).astype(np.float32)
        for got, wanted in zip(executable(x, z), opened().at(batch=rows).evaluate([x, z]).values()):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_what_several_sizes_compute_alike_is_tuned_once_and_every_size_counts(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[NetworkProgress] = []
    chosen: list[object] = []
    monkeypatch.setattr(sys.modules["tensorsmith.tune"], "named", lambda objective: chosen.append(objective) or named(objective))
    found = bench(constant)
    ts.tune(opened(2, 64), trials=40, on_progress=seen.append)
    assert chosen == ["geomean"]
    assert seen[-1].networks == ("open[batch=2]", "open[batch=64]")
    assert seen[-1].tasks == 5 and len(found.counts()) == 5  # two of each size, and the one of z
    shared = [w for w in found.counts() if w.buffers[w.outputs[0]].shape == (8, 16)]
    assert len(shared) == 1


class Listening(RandomPolicy):
    """Notes what it hears of other sizes."""

    heard: ClassVar[list[tuple[str, Candidate]]] = []

    def hint(self, candidates: Sequence[Candidate]) -> None:
        Listening.heard += [(self.space.workload.key, c) for c in candidates]


def test_what_is_good_at_one_size_is_tried_at_the_others_as_it_is_found(bench: Callable[..., Bench]) -> None:
    bench(improving)
    Listening.heard = []
    ts.tune(opened(4, 8), trials=60, policy=Listening, rules="default", model="random", on_progress=lambda p: None)
    assert Listening.heard
    for key, candidate in Listening.heard:
        assert candidate.sketch.workload.key != key
    Listening.heard = []
    ts.tune(
        [opened().at(batch=4), opened().at(batch=8)],
        trials=60,
        policy=Listening,
        rules="default",
        model="random",
        on_progress=lambda p: None,
    )
    assert not Listening.heard  # networks that are not one at several sizes go on as they began
