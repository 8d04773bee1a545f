"""JSON lines: a round trip, and whatever a stranger may have written."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.records.samples import TARGET, TIMING, candidate, failure, matmul, trial

from tensorsmith.records import Store, StoreError, Timing
from tensorsmith.search.trial import Status, Trial

W = matmul()


def exported(store):
    stream = io.StringIO()
    store.export(stream)
    return stream.getvalue()


def line(**changes):
    """One exported line with some of its entries changed; None removes one."""
    with Store.in_memory() as store:
        store.add(W, TARGET, TIMING, [trial(W)])
        data = json.loads(exported(store)) | changes
    return json.dumps({k: v for k, v in data.items() if v is not None or k == "seconds"}) + "\n"


positive = st.floats(1e-9, 1e6)
workloads = st.sampled_from([matmul(), matmul(64), matmul(7, 13, "D")])


@st.composite
def batches(draw):
    workload = draw(workloads)
    target = dataclasses.replace(TARGET, cores=draw(st.integers(1, 4)), cpu=draw(st.text(max_size=5)))
    timing = Timing(draw(st.sampled_from(["warm", "cold"])), draw(st.integers(1, 3)))
    trials = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = draw(st.tuples(st.integers(1, 99), st.integers(1, (1 << 31) - 1), st.integers(1, 64), st.integers(0, 2)))
        status = draw(st.sampled_from(Status))
        seconds = draw(positive) if status is Status.OK else None
        rest = draw(st.tuples(positive, st.booleans(), st.text(), positive, positive))
        trials.append(Trial(candidate(workload, *sizes), status, seconds, *rest))
    return workload, target, timing, trials


@settings(max_examples=40, deadline=None)
@given(st.lists(batches(), max_size=4), st.text())
def test_round_trip(given_batches, run):
    with Store.in_memory() as store, Store.in_memory() as copy:
        for workload, target, timing, trials in given_batches:
            store.add(workload, target, timing, trials, run=run)
        text = exported(store)
        total = sum(len(b[3]) for b in given_batches)
        counts = copy.import_(io.StringIO(text, newline=""))
        assert (counts.added, counts.present, counts.skipped) == (total, 0, {})
        assert exported(copy) == text
        for workload, target, timing, trials in given_batches:
            assert copy.history(workload, target, timing) == store.history(workload, target, timing)
            assert copy.measured(workload, target, timing) == store.measured(workload, target, timing)
            assert [r.trial for r in copy.top(workload, target, timing, 9)] == [
                r.trial for r in store.top(workload, target, timing, 9)
            ]
            assert all(t in [r.trial for r in copy.history(workload, target, timing)] for t in trials)
        again = copy.import_(io.StringIO(text, newline=""))
        assert (again.added, again.present) == (0, total)
        assert not store.skipped and not copy.skipped


def test_files(tmp_path):
    with Store.open(tmp_path / "a.db") as store:
        store.add(W, TARGET, TIMING, [trial(W), failure(W)])
        assert store.export(tmp_path / "a.jsonl").added == 2
        with pytest.raises(StoreError, match="exists already"):
            store.export(tmp_path / "a.jsonl")
        with pytest.raises(StoreError, match="exists already"):
            store.export(tmp_path / "a.db")  # by mistake
    with Store.open(tmp_path / "b.db") as store:
        assert str(store.import_(tmp_path / "a.jsonl")) == "2 records added, 0 there already, 0 skipped"
        assert store.best(W, TARGET, TIMING).trial == trial(W)
        with pytest.raises(StoreError, match="merge it instead"):
            store.import_(tmp_path / "a.db")
        with pytest.raises(StoreError, match="no file"):
            store.import_(tmp_path / "none.jsonl")
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".db", ".db", ".jsonl"]


def test_lines_can_be_cut_and_joined(tmp_path):
    with Store.open(tmp_path / "a.db") as store:
        store.add(W, TARGET, TIMING, [trial(W, i=i) for i in range(1, 6)])
        lines = exported(store).splitlines(keepends=True)
    with Store.open(tmp_path / "b.db") as store:
        counts = store.import_(io.StringIO("\n".join([lines[3], lines[1], lines[3]]) + "\n" + lines[4][:100]))
    assert (counts.added, counts.present, counts.skipped) == (2, 1, {"the line is not JSON": 1})


def test_a_line_without_uid_is_known_again():
    with Store.in_memory() as store:
        text = line(uid=None)
        assert store.import_(io.StringIO(text)).added == 1
        assert store.import_(io.StringIO(text)).present == 1


def changed(path, value):
    """The line with one value deep inside changed."""
    data = json.loads(line())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(data)


STRANGE = [
    ("[]", "not a JSON object"),
    ("{}", "record format None is not known"),
    ("\0\x01binary", "the line is not JSON"),
    ("[" * 100_000, "the line is not JSON"),
    ('{"format": ' + "9" * 5000 + "}", "the line is not JSON"),
    (lambda: line(format=99), "record format 99 is not known"),
    (lambda: line(uid=7), "uid: not a short text"),
    (lambda: line(uid="x" * 1000), "uid: not a short text"),
    (lambda: line(workload=[1]), "workload: malformed workload"),
    (lambda: changed(["workload", "format"], 9), "workload: workload format 9"),
    (lambda: changed(["workload", "stages", 0, "body"], ["__import__", "os"]), "workload: "),
    (lambda: changed(["workload", "stages", 0, "axes", 0, 1], 99), "workload: stage C"),
    (lambda: line(target="native"), "target: malformed target: not an object"),
    (lambda: changed(["target", "cores"], "2"), "target: malformed target: cores"),
    (lambda: line(timing={"cache": "warm"}), "timing: KeyError"),
    (lambda: line(timing={"cache": [], "threads": 1}), "timing: timing with a"),
    (lambda: line(candidate=None), "candidate: KeyError"),
    (lambda: line(candidate={"sketch": {}, "decisions": []}), "candidate: AttributeError"),
    (
        lambda: changed(["candidate", "decisions", "C.i.1"], 0),
        "candidate: decisions do not fit the sketch",
    ),
    (lambda: changed(["candidate", "decisions", "C.i.1"], 1.5), "candidate: decision C.i.1 is 1.5"),
    (lambda: changed(["candidate", "decisions", "C.i.1"], 1 << 80), "candidate: decision C.i.1 is"),
    (lambda: changed(["candidate", "decisions", "X"], 1), "candidate: decisions do not fit"),
    (lambda: changed(["candidate", "sketch", "nests", 0, "loops"], "i.0 | q.0"), "candidate: nest of C"),
    (lambda: changed(["candidate", "sketch", "nests", 0, "loops"], None), "candidate: "),
    (lambda: changed(["candidate", "sketch", "rewrites"], [["inline", "C"]]), "candidate: Refusal: inlined reduction"),
    (lambda: changed(["candidate", "sketch", "rewrites"], [["rm -rf", "C"]]), "candidate: unknown rewrite"),
    (lambda: line(status="splendid"), "result: ValueError"),
    (lambda: line(status=["ok"]), "result: ValueError"),
    (lambda: line(seconds=None), "result: status ok without a time"),
    (lambda: line(seconds=-1), "result: status ok without a time"),
    (lambda: line(seconds="fast"), "seconds is not a number"),
    (lambda: line(seconds=float("nan")), "seconds is not a number"),
    (lambda: line(status="crashed"), "result: a time, but it failed"),
    (lambda: line(spread=10**400), "spread is not a number"),
    (lambda: line(at_least="no"), "result: at_least"),
    (lambda: line(cause={}), "cause is not a text"),
    (lambda: line(run=3), "run is not a text"),
    (lambda: line(created="now"), "created is not a number"),
]


@pytest.mark.parametrize("text, reason", STRANGE, ids=range(len(STRANGE)))
def test_strange_lines_are_skipped_with_a_reason(text, reason):
    text = text if isinstance(text, str) else text().strip()
    with Store.in_memory() as store:
        counts = store.import_(io.StringIO(text + "\n" + line()))
        assert counts.added == 1
        ((found, n),) = counts.skipped.items()
        assert n == 1 and found.startswith(reason)
        assert len(found) <= 200
        assert reason in str(counts)
        assert len(store.history(W, TARGET, TIMING)) == 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_line_ever_raises(data):
    """Any JSON value in the place of any value of a line: the line is taken or skipped, never more."""
    whole = json.loads(LINE)
    place, key = data.draw(st.sampled_from(list(places(whole))))
    values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    place[key] = data.draw(
        st.recursive(values, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3))
    )
    with Store.in_memory() as store:
        counts = store.import_(io.StringIO(json.dumps(whole)))
        assert counts.added + counts.skipped.total() == 1
        store.workloads()
        store.best(W, TARGET, TIMING)
        store.similar(matmul(64), TARGET)


def places(value):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from places(inner)


LINE = line()


def test_a_file_that_was_cut_short():
    """The last line is lost, and counted; the others are there."""
    first, last = line(uid="a"), line(uid="b")
    for kept in (1, 40, len(last) - 2):
        with Store.in_memory() as store:
            counts = store.import_(io.StringIO(first + last[:kept]))
            assert counts.added == 1 and counts.skipped == {"the line is not JSON": 1}


def test_a_line_too_long_for_any_record_is_passed_over(monkeypatch):
    """Without being held in memory, of which it may need more than there is."""
    whole = line(uid="a")
    longest = len(whole) + 20  # times are not always written in as many digits
    monkeypatch.setattr("tensorsmith.records.lines._LONGEST_LINE", longest)
    read = []

    class Stream(io.StringIO):
        def readline(self, size=-1):
            read.append(size)
            return super().readline(size)

    huge = "x" * (10 * len(whole))
    with Store.in_memory() as store:
        counts = store.import_(Stream(f"{huge}\n{whole}{huge}\n{line(uid='b')}{huge}"))
    assert counts.added == 2 and counts.skipped == {f"the line is longer than {longest} characters": 3}
    assert set(read) == {longest}


def test_merge(tmp_path):
    with Store.open(tmp_path / "a.db") as a, Store.open(tmp_path / "b.db") as b:
        a.add(W, TARGET, TIMING, [trial(W, 1e-3, 1), failure(W)])
        b.add(W, TARGET, TIMING, [trial(W, 2e-3, 2)])
        assert b.merge(tmp_path / "a.db").added == 2
        assert (counts := b.merge(tmp_path / "a.db")).added == 0 and counts.present == 2
        assert [r.seconds for r in b.top(W, TARGET, TIMING, 9)] == [1e-3, 2e-3]
        assert len(a.history(W, TARGET, TIMING)) == 2
        with pytest.raises(ValueError, match="merged into itself"):
            b.merge(tmp_path / "b.db")
        with pytest.raises(StoreError, match="no record file"):
            b.merge(tmp_path / "c.db")
    assert not (tmp_path / "c.db").exists()
