"""Records of a stranger: whatever was changed in them, they are left out and counted, or used; they never end a run."""

from __future__ import annotations

import copy
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tuning.fakes import DEFAULT_POLICY, FakeMeasurer

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.ops import conv, elementwise
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import native
from tensorsmith.tuning.tasks import formulation

TARGET = native()
TIMING = Timing("warm", TARGET.cores)


def layer(size: int) -> ts.Workload:
    """A convolution and what follows it: its schedules have copies, attached stages and many loops."""
    x, k = ts.placeholder((1, size, size, 16), "f32", "X"), ts.placeholder((3, 3, 16, 32), "f32", "K")
    return ts.workload([x, k, elementwise.relu(conv.conv2d(x, k, padding=1))])


WORKLOAD, SIMILAR = layer(14), layer(28)


def forms(workload: Any, count: int) -> list[dict[str, Any]]:
    """Records of many structures in their JSON form."""
    space = space_of(workload, TARGET)
    drawn = [space.plans[p.plan].candidate(row) for p in sample(space, count, np.random.default_rng(1)) for row in p.matrix]
    stream = io.StringIO()
    with Store.in_memory() as store:
        store.add(workload, TARGET, TIMING, [Trial(c, Status.OK, 1e-3) for c in drawn])
        store.export(stream)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from places(inner)


def changed(rng: random.Random, form: dict[str, Any]) -> dict[str, Any]:
    """One thing is another, is missing, or is of another kind; most often in the candidate, which says most."""
    form = copy.deepcopy(form)
    form["uid"] = f"{rng.getrandbits(60):x}"
    inside = form["candidate"] if rng.random() < 0.8 else form
    place, key = rng.choice(list(places(inside)))
    old = place[key]
    words = [str(p[k]) for p, k in places(form["candidate"]["sketch"]) if isinstance(p[k], str)]
    if rng.random() < 0.1:
        del place[key]
    elif isinstance(old, (int, float)) and rng.random() < 0.9:
        place[key] = rng.choice([0, -1, 1, 7, 2**31 - 1, 2**31, 2**63, 10**30, -(10**30), 1.5, 1e308, True])
    elif isinstance(old, str) and rng.random() < 0.9:
        parts = rng.choice(words).split()
        place[key] = rng.choice(["nobody", "", old[:-1], old + "!", " ".join(parts[::-1]), *words, *parts, "relu:99", "conv:-1"])
    else:
        place[key] = rng.choice([None, True, [], {}, 3, 2.5, "nobody", [[]], {"a": 1}])
    return form


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker starts, and the search is a cheap one; what it does with records is the same."""
    monkeypatch.setattr(formulation, "Measurer", lambda *given, **options: FakeMeasurer(lambda n: 1e-3 * (n + 1)))
    monkeypatch.setitem(*DEFAULT_POLICY)
    monkeypatch.setattr("tensorsmith.measure.workshop.Workshop.start", lambda self: None)


def imported(path: Path, records: list[dict[str, Any]]) -> str:
    with Store.open(path) as store:
        counts = store.import_(io.StringIO("\n".join(map(json.dumps, records))))
        assert counts.added + counts.skipped.total() == len(records)
        return str(counts)


def tune(path: Path) -> None:
    ts.tune(WORKLOAD, trials=8, database=path, on_progress=lambda p: None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c["decisions"].update({next(iter(c["decisions"])): 2**31}), "decision .* is 2147483648"),
        (
            lambda c: [n.update(follows="nobody") for n in c["sketch"]["nests"] if "follows" in n],
            "follows 'nobody', which is no stage",
        ),
        (lambda c: [n.update(follows=n["stage"]) for n in c["sketch"]["nests"] if "follows" in n], "which is no stage"),
    ],
)
def test_what_ended_a_run_is_skipped_and_counted(
    change: Callable[[Any], None], reason: str, tmp_path: Path, measurer: None
) -> None:
    good, bad = (next(f for f in forms(WORKLOAD, 32) if "follows" in json.dumps(f)) for _ in range(2))
    good["uid"] = "good"
    change(bad["candidate"])
    said = imported(tmp_path / "tune.db", [good, bad])
    assert said.startswith("1 records added, 0 there already, 1 skipped (1 x candidate: ")
    assert re.search(reason, said)
    # one that an older version let in is left out when it is read
    with Store.open(tmp_path / "old.db") as store:
        store.import_(io.StringIO(json.dumps(good)))
        store._connection.execute("UPDATE record SET candidate = ?", (json.dumps(bad["candidate"]),))
        assert store.top(WORKLOAD, TARGET, TIMING, 3) == [] and store.skipped.total() == 1
    with pytest.warns(RuntimeWarning, match=rf"1 records of .*old.db cannot be used and were left out, for example: .*{reason}"):
        tune(tmp_path / "old.db")


@pytest.mark.parametrize("seed", range(4))
def test_records_changed_in_any_way_never_end_a_run(seed: int, tmp_path: Path, measurer: None) -> None:
    rng = random.Random(seed)
    records = [changed(rng, rng.choice(some)) for some in (forms(WORKLOAD, 32), forms(SIMILAR, 16)) for _ in range(150)]
    said = imported(tmp_path / "tune.db", records)
    assert " skipped (" in said
    with Store.open(tmp_path / "tune.db", read_only=True) as store:
        kept = len(store.history(WORKLOAD, TARGET, TIMING))
        store.workloads(), store.failures(WORKLOAD), store.similar(WORKLOAD, TARGET, TIMING)
    assert 10 < kept < 150
    tune(tmp_path / "tune.db")
    with np.errstate(all="ignore"):
        ts.compile(WORKLOAD, database=tmp_path / "tune.db")
