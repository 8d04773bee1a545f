"""All policies side by side: who is ahead, what is said of those that end early or fail, and that a stopped run goes on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import learning_draw
import paper_runs
import policies
from curves import Curve, Named, attempted, run, text
from paper_figures import Line, of_leaders
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.policy import POLICIES, as_preset
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

WORKLOAD = catalogue.get("GMM-small").workload()


def pretended(candidates: Sequence[Candidate]) -> list[Trial]:
    """Times that follow from the candidate alone."""
    return [Trial(c, Status.OK, 1e-3 + 1e-6 * (sum(map(ord, text(c))) % 1000), build_seconds=0.1) for c in candidates]


class Machine:
    """Pretends, counts what it was asked to measure, and may break down."""

    asked = contests = 0
    breaks_after = 10**9

    def __init__(self, workload: Workload, store: Store) -> None:
        self.workload, self.store = workload, store
        self.timing = Timing("warm", native().cores)
        self.known = {text(r.trial.candidate): r.trial for r in store.history(workload, native(), self.timing)}

    def __call__(self, candidates: Sequence[Candidate]) -> list[Trial]:
        new = [t for t in pretended(candidates) if text(t.candidate) not in self.known]
        if Machine.asked + len(new) > Machine.breaks_after:
            raise KeyboardInterrupt
        Machine.asked += len(new)
        self.store.add(self.workload, native(), self.timing, new)
        self.known.update({text(t.candidate): t for t in new})
        return [self.known[text(c)] for c in candidates]

    def again(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        Machine.contests += 1
        return {text(t.candidate): t.seconds for t in pretended(candidates) if t.seconds is not None}

    def close(self) -> None:
        pass


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> type[Machine]:
    monkeypatch.setattr(paper_runs, "Machine", Machine)
    monkeypatch.setattr(Machine, "asked", 0)
    monkeypatch.setattr(Machine, "contests", 0)
    monkeypatch.setattr(Machine, "breaks_after", 10**9)
    return Machine


def words(out: Path, *more: str) -> list[str]:
    given = ["--trials", "12", "--seeds", "2", "--only", "random,metaschedule-replay", "--workloads", "GMM-small,dense-small"]
    return [*given, "--out", str(out), *more]


def test_a_comparison_says_who_is_ahead_and_is_kept(
    tmp_path: Path, machine: type[Machine], capsys: pytest.CaptureFixture[str]
) -> None:
    assert policies.main(words(tmp_path, "--plot")) == 0
    said = capsys.readouterr().out
    assert "random" in said and "metaschedule-replay" in said and "at 12" in said
    report = json.loads((tmp_path / "policies.json").read_text())
    assert set(report["means"]["12"]) == {"random", "metaschedule-replay"}
    assert all(0 < mean <= 1 for mean in report["means"]["12"].values())
    before = machine.asked
    policies.main(words(tmp_path))
    assert machine.asked == before and machine.contests == 2, "what is done is not done again"


def test_a_comparison_that_is_stopped_goes_on(tmp_path: Path, machine: type[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    policies.main(words(tmp_path / "whole"))
    whole, machine.asked = machine.asked, 0
    monkeypatch.setattr(Machine, "breaks_after", whole // 2)
    with pytest.raises(SystemExit, match="the same command"):
        policies.main(words(tmp_path / "parts"))
    first = machine.asked
    monkeypatch.setattr(Machine, "breaks_after", 10**9)
    policies.main(words(tmp_path / "parts"))
    assert 0 < first <= whole // 2 and machine.asked == whole
    reports = [json.loads((tmp_path / folder / "policies.json").read_text())["speeds"] for folder in ("whole", "parts")]
    assert reports[0] == reports[1]


def test_a_policy_that_fails_or_has_a_small_space_is_noted(machine: type[Machine]) -> None:
    class Broken(Named):
        def policy(self, workload: Workload, seed: int) -> Any:
            raise RuntimeError("no template\nfor this")

    failed = attempted(WORKLOAD, Broken("random"), 8, 0, pretended)
    assert failed.note == "failed: RuntimeError: no template" and failed.at(8) is None
    few = attempted(WORKLOAD, Named("autotvm-grid"), 10_000, 0, pretended)
    assert few.programs is not None and len(few.best) <= few.programs < 10_000
    assert few.note == f"nothing is left to try after {len(few.best)} trials"
    said = policies.endings({"GMM": {"broken": [failed], "grid": [few], "random": [Curve([1.0], [1.0])]}})
    assert set(said) == {"broken", "grid"} and f"of {few.programs:,} programs" in said["grid"]


@pytest.mark.parametrize("name", ["tensorsmith-noseeds", "ansor-limited", "autotvm-random"])
def test_policies_search_by_their_names(name: str) -> None:
    curve = run(WORKLOAD, Named(name), 4, 0, pretended)
    assert len(curve.best) == 4 and curve.winner is not None
    known = {text(c): pretended([c])[0] for _, c in curve.leaders}
    assert Curve.from_json(json.loads(json.dumps(curve.to_json())), known) == curve


def test_leaders_count_by_the_times_taken_in_turns() -> None:
    first, second, third = Named("random").policy(WORKLOAD, 0).ask(3)
    lucky = Curve([3.0, 1.0, 1.0], [0.1, 0.2, 0.3], [(1, first), (2, second)])
    plain = Curve([3.0, 2.0], [0.1, 0.2], [(1, first), (2, third)])
    again = {text(first): 3.0, text(second): 2.5, text(third): 2.0}
    assert lucky.leader(1) == first and lucky.leader(3) == lucky.winner == second
    panels = {"a": [of_leaders("lucky", [lucky], again, (1, 3)), of_leaders("plain", [plain], again, (1, 3))]}
    assert policies.standing(panels, 3).speeds == {"lucky": {"a": 0.8}, "plain": {"a": 1.0}}
    assert policies.standing(panels, 1).speeds["lucky"] == policies.standing(panels, 1).speeds["plain"]


def line(name: str, *best: float) -> Line:
    return Line(name, tuple(range(1, len(best) + 1)), tuple(map(float, range(len(best)))), best)


def test_standings() -> None:
    panels = {
        "a": [line("tensorsmith", 2.0, 1.0), line("ansor", 4.0, 2.0), line("tensorsmith-notrees", 2.0, 1.005)],
        "b": [line("tensorsmith", 3.0, 3.0), line("ansor", 2.0, 1.5), line("tensorsmith-notrees", 6.0)],
    }
    first, second = (policies.standing(panels, n) for n in (1, 2))
    assert first.speeds["tensorsmith"] == {"a": 0.5, "b": 0.5} and first.mean("tensorsmith") == pytest.approx(0.5)
    assert second.ahead("tensorsmith", "ansor") == (1, 0) and second.ahead("tensorsmith", "tensorsmith-notrees") == (1, 1)
    assert second.mean("ansor") == pytest.approx(0.5**0.5)
    said = "\n".join(policies.verdict([second], 2))
    assert "every other policy on at least 1 of 2 (ansor: ahead 1, equal 0)" in said
    assert "itself without any one part on at least 2 of 2 (tensorsmith-notrees: ahead 1, equal 1)" in said


def test_who_found_nothing_somewhere_has_no_mean_and_is_behind() -> None:
    panels = {"a": [line("tensorsmith", 1.0), Line("x", (), (), ())], "b": [line("tensorsmith", 1.0), line("x", 1.0)]}
    found = policies.standing(panels, 1)
    assert found.mean("x") is None and found.ahead("tensorsmith", "x") == (1, 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--only", "magic"], "there is no policy 'magic'"),
        (["--trials", "0"], "1 or more"),
        (["--school", "nowhere.db"], "there is no file nowhere.db"),
        (["--school", "x.db", "--make-school", "3"], "not both"),
    ],
)
def test_refusals(more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        policies.arguments(["--out", str(tmp_path), *more])
    assert message in capsys.readouterr().err


def test_transfer_is_compared_only_with_a_school(tmp_path: Path) -> None:
    school = tmp_path / "school.db"
    with Store.open(school):
        pass
    assert policies.NO_TRANSFER not in policies.arguments(["--out", str(tmp_path)]).only
    assert set(policies.arguments(["--out", str(tmp_path), "--school", str(school)]).only) == set(POLICIES.names())


def test_a_school_teaches_those_who_learn_from_others(tmp_path: Path) -> None:
    school = tmp_path / "school.db"
    other = catalogue.get("GMM-1-b1").workload()
    asked = Named("random").policy(other, 0).ask(40)
    with Store.open(school) as store:
        store.add(other, native(), Timing("warm", native().cores), pretended(asked))
    taught, plain = (Named("tensorsmith-nopretrained", where).policy(WORKLOAD, 0) for where in (str(school), None))
    assert taught.model.ready() and not plain.model.ready()  # type: ignore[attr-defined]
    assert not as_preset("ansor").transfer
    with pytest.raises(Exception, match="records of the very workload"):
        Named("tensorsmith", str(school)).policy(other, 0)


def test_workloads_are_drawn_by_number_and_none_is_collected_from() -> None:
    some = [policies.workload_of(f"drawn-{n}").canonical_key for n in range(6)]
    assert some == [policies.workload_of(f"drawn-{n}").canonical_key for n in range(6)] and len(set(some)) > 4
    collected = {w.canonical_key for _, w in itertools.islice(learning_draw.drawn(0), 60)}
    assert not collected & set(some)
