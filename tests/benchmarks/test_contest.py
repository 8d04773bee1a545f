"""A case's contest without peers and without a clock: who of ours takes part, and how they are called."""

import dataclasses

import numpy as np
import pytest

import contest
import ops
from contest import Settings
from formulations import case_of
from ours import formulation, kernel, same_program
from peers import Peer
from rows import ALONE, OURS, UNTUNED
from tensorsmith.build import build
from tensorsmith.compile import compile as compile_default
from tensorsmith.errors import UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.measure.referee import Comparison, Repeated, Timing
from tensorsmith.runtime.executable import Executable
from tensorsmith.space.plain import plain_candidate

CASE = case_of("ConvLayer(1, 9, 9, 7, 13, 3, 1, 1)")
SETTINGS = Settings(threads=1, seconds=0.0, frameworks=())


@pytest.fixture
def contestants(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Those that would be timed; all take a second."""
    seen: dict[str, object] = {}

    def hold(found, ours, case, settings):
        seen.update(found)
        return Comparison({name: Timing(1.0, (1.0,), 1) for name in found}, frozenset(ours))

    monkeypatch.setattr(contest, "hold", hold)
    return seen


def default() -> Executable:
    return compile_default(CASE.workload())


def plain() -> Executable:
    return build(plain_candidate(CASE.workload()))


def test_one_program_is_timed_once(contestants):
    row = contest.contest(CASE, CASE.workload(), default, SETTINGS, untuned=default)
    assert set(contestants) == {OURS, ALONE}
    assert row["same_program"] and row["tuned_to_untuned"] == 1.0


def test_untuned_takes_part_beside_another_program(contestants):
    row = contest.contest(CASE, CASE.workload(), plain, SETTINGS, untuned=default)
    assert set(contestants) == {OURS, UNTUNED, ALONE}
    assert "same_program" not in row and "error" not in row


def test_programs_are_compared_by_their_code():
    assert same_program(default(), default())
    assert not same_program(default(), plain())


def test_ours_is_called_as_a_user_calls_it(contestants, monkeypatch):
    contest.contest(CASE, CASE.workload(), default, SETTINGS)
    calls = []
    monkeypatch.setattr(Executable, "__call__", lambda self, *args, **named: calls.append((self, args, named)))
    run = contestants[OURS]
    assert not isinstance(run, Repeated) and isinstance(contestants[ALONE], Repeated)
    run()
    ((executable, args, named),) = calls
    assert [a.shape for a in args] == [a.shape for a in executable.inputs] == [(1, 9, 9, 7)]  # the constants are bound
    assert set(named) == {"out"} and named["out"].shape == executable.outputs[0].shape


def test_what_ours_does_not_write_is_noticed():
    workload = CASE.workload()
    made = kernel(default(), random_inputs(workload), 1)
    first = made.output().copy()
    assert np.isfinite(first).all()
    broken = contest.check
    with pytest.raises(contest.WrongAnswer, match=OURS):
        broken(workload, first, {OURS: lambda: np.full_like(first, np.nan)})


def test_everyones_inputs_begin_at_a_cache_line(contestants, monkeypatch):
    given = []
    monkeypatch.setattr(contest, "peers_for", lambda case, arrays, *rest: given.extend(arrays) or ([], {}))
    contest.contest(CASE, CASE.workload(), default, SETTINGS)
    assert given and all(array.ctypes.data % 64 == 0 for array in given)


def test_a_failure_of_ours_is_an_error_of_the_row(contestants):
    def refused() -> Executable:
        raise UserError("no")

    assert contest.contest(CASE, CASE.workload(), refused, SETTINGS)["error"] == "UserError: no"


def test_a_peer_that_differs_is_noted_and_not_timed(contestants, monkeypatch):
    workload = CASE.workload()
    right = kernel(default(), random_inputs(workload), 1).output()
    peers = [Peer(name, lambda: None, lambda wrong=wrong: right + wrong) for name, wrong in {"right": 0, "wrong": 1}.items()]
    monkeypatch.setattr(contest, "peers_for", lambda *given: (peers, {}))
    row = contest.contest(CASE, workload, default, SETTINGS)
    assert set(contestants) == {OURS, ALONE, "right"}
    assert row["notes"]["wrong"].startswith("wrong answer: wrong: ")


@pytest.mark.parametrize(("name", "expected"), [("C2D-3-b1", "winograd"), ("C2D-1-b1", "direct"), ("GMM-1-b1", "direct")])
def test_the_formulation_that_runs_is_known(name, expected):
    workload = case_of(name).workload()
    assert formulation(compile_default(workload), workload) == expected
    assert formulation(build(plain_candidate(workload)), workload) == "direct"


def test_each_case_has_an_order_of_its_own(monkeypatch):
    seeds = []
    monkeypatch.setattr(contest, "compare", lambda found, *, seed, **how: seeds.append(seed) or Comparison({}))
    for case in ("a", "b"):
        contest.hold({}, (), case, SETTINGS)
    assert len(seeds) == len(set(seeds)) == 2


def test_a_contest_waits_for_other_processes_where_patience_is_asked_for(monkeypatch):
    done = []
    monkeypatch.setattr(contest, "wait_for_quiet", done.append)
    monkeypatch.setattr(contest, "compare", lambda found, **how: done.append("held"))
    for patience in (0.0, 3.0):
        contest.hold({}, (), "a", dataclasses.replace(SETTINGS, patience=patience))
    assert done == ["held", 3.0, "held"]


# -- the script of the operators -----------------------------------------------------------------------------------------


def entry(operator: str, share: float, formulation: str) -> dict[str, object]:
    return {
        "operator": operator,
        "ratio_to_best_peer": 1.0,
        "untuned_ratio_to_best_peer": 1.0,
        "share_of_peak": share,
        "formulation": formulation,
    }


def test_winograd_is_not_averaged_into_the_dense_cases():
    rows = {
        "C2D-1-b1": entry("C2D", 0.9, "direct"),
        "C2D-3-b1": entry("C2D", 2.5, "winograd"),
        "GMM-1-b1": entry("GMM", 0.1, "direct"),  # too small to be limited by arithmetic
        "GMM-3-b1": entry("GMM", 0.4, "direct"),
        "DEP-1-b1": entry("DEP", 0.2, "direct"),
    }
    _, direct, with_winograd = ops.closing(rows)
    assert direct == "dense cases computed directly (2): 60.0% of the FMA peak"
    assert with_winograd == ("with Winograd's (C2D-3-b1), by the operations of the direct sum: 96.5%, which is no share of a peak")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--only C2E", "there is no case or operator 'C2E' at batch 1"),
        ("--only C2D-1-b16", "there is no case or operator 'C2D-1-b16' at batch 1"),
        ("--peers tvm", "there is no peer 'tvm'"),
        ("--no-search", "give it with --db"),
    ],
)
def test_bad_arguments_fail_at_once(capsys, words, message):
    with pytest.raises(SystemExit):
        ops.arguments(words.split())
    assert message in capsys.readouterr().err


def test_cases():
    assert len(ops.arguments([]).cases) == len(ops.arguments(["--batch", "16"]).cases) == 48
    names = [case.name for case in ops.arguments(["--only", "NRM,GMM-1-b1"]).cases]
    assert names == ["GMM-1-b1", "NRM-1-b1", "NRM-2-b1", "NRM-3-b1", "NRM-4-b1"]


def test_without_search_the_programs_of_the_record_file_run(monkeypatch):
    asked = []
    monkeypatch.setattr(ops.ts, "compile", lambda workload, **named: asked.append(named))
    monkeypatch.setattr(ops.ts, "tune", lambda *given, **named: pytest.fail("searched"))
    search = ops.Search(64, None, "ops.db", searching=False)
    search(CASE.workload())
    assert asked == [{"database": "ops.db"}]
    assert search.figures() == {}
