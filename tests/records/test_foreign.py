"""Programs of other systems: hints for searches, apart from records."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Store, Timing, ansor
from tensorsmith.search.policies.tensorsmith import TensorsmithPolicy
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

LOG = Path(__file__).parent / "ansor" / "logs" / "v100.matmul.jsonl"
GPU = Target.named("a100")


def product(m: int, n: int, k: int, letters: str = "XYZ") -> Workload:
    x, y = ts.placeholder((m, k), name=letters[0]), ts.placeholder((k, n), name=letters[1])
    r = ts.reduce_axis(k, name="r")
    return ts.workload([x, y, ts.compute((m, n), lambda p, q: ts.sum(x[p, r] * y[r, q], axis=r), name=letters[2])])


def numbers(candidate: Candidate) -> list[int]:
    return [candidate.decisions[h] for h in candidate.sketch.holes]


def test_they_are_kept_once_and_are_no_records(tmp_path: Path) -> None:
    log = ansor.read(LOG)
    ran = sum(r.status == "ok" for r in log.records)
    with Store.open(tmp_path / "tune.db") as store:
        assert store.hints(product(1024, 4096, 1024), "gpu") == []
        assert store.add_foreign(ansor.foreign(log)).added == ran
        again = store.add_foreign(ansor.foreign(ansor.read(LOG)))
        assert (again.added, again.present) == (0, ran)
        assert store.workloads() == []
        workload = log.records[0].workload
        assert workload is not None and store.history(workload, GPU, Timing("warm", 108)) == []


def test_hints_are_the_fastest_in_the_names_of_whoever_asks(tmp_path: Path) -> None:
    log = ansor.read(LOG)
    first = log.records[0].group
    mine = [r for r in log.records if r.group is first and r.status == "ok"]
    fastest = min(mine, key=lambda r: r.seconds or 1.0)
    asked = product(1024, 4096, 1024)
    with Store.open(tmp_path / "tune.db") as store:
        store.add_foreign(ansor.foreign(log))
        hints = store.hints(asked, "gpu")
        assert hints and hints[0].sketch.workload == asked
        assert fastest.candidate is not None
        assert numbers(hints[0]) == numbers(fastest.candidate)
        assert any(h.sketch.workload.key != asked.key for h in hints)  # of other sizes
        assert store.hints(asked, "cpu") == []
        assert len(store.hints(asked, "gpu", k=1)) < len(hints)


def test_a_search_begins_with_them(tmp_path: Path) -> None:
    asked = product(1024, 4096, 1024)
    with Store.open(tmp_path / "tune.db") as store:
        store.add_foreign(ansor.foreign(ansor.read(LOG)))
        hints = [h for h in store.hints(asked, "gpu") if h.sketch.workload.key == asked.key]
    space = space_of(asked, GPU)
    places = [space.find(h) for h in hints]
    assert all(place is not None for place in places)
    policy = TensorsmithPolicy(space, seed=0, hints=hints)
    first = [numbers(c) for c in policy.ask(1 + len(hints))]
    assert all(numbers(h) in first for h in hints)


def test_what_a_stranger_changed_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with Store.open(path) as store:
        store.add_foreign(ansor.foreign(ansor.read(LOG)))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE foreign_record SET decisions = '[1, \"x\"]' WHERE id % 2")
    connection.execute("UPDATE foreign_sketch SET sketch = '{' WHERE id = 1")
    connection.commit()
    connection.close()
    with Store.open(path) as store:
        assert all(h.sketch.workload.key != product(1024, 4096, 1024).key for h in store.hints(product(1024, 4096, 1024), "gpu"))
