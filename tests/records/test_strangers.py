"""A record file from a stranger: whatever was changed in it, answers are right, or say what is wrong; nothing in it is run."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.records.samples import failure, matmul, trial

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.records import Store, StoreError, Timing, recover
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import native

TARGET, TIMING = native(), Timing("warm", native().cores)
W = matmul()
PAGE = 4096


def everything(store: Store) -> None:
    """All queries."""
    store.workloads()
    store.best(W, TARGET, TIMING)
    store.top(W, TARGET, TIMING, 3)
    store.history(W, TARGET, TIMING)
    store.measured(W, TARGET, TIMING)
    store.failures(W)
    store.similar(matmul(48), TARGET)
    store.why_missing(matmul(7), TARGET, TIMING)
    store.key_parts(W, TARGET, TIMING)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "tune.db"
    with Store.open(path) as store:
        for n in range(8):
            other = matmul(64 + n)
            store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1 + 5 * n + i) for i in range(5)] + [failure(W)])
            store.add(other, TARGET, TIMING, [trial(other)])
    return path


def test_bytes_flipped_anywhere(filled: Path, tmp_path: Path) -> None:
    """Every query answers or says that the file is damaged, before and after the rescue; reading never changes the file."""
    whole = filled.read_bytes()
    outcomes: Counter[str] = Counter()
    for seed in range(25):
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(rng.choice([1, 3, 30])):
            head = rng.randrange(len(data) // PAGE) * PAGE + rng.randrange(30)
            data[rng.choice([head, rng.randrange(len(data))])] ^= 1 << rng.randrange(8)
        folder = tmp_path / str(seed)
        folder.mkdir()
        path, new = folder / "tune.db", folder / "new.db"
        path.write_bytes(data)
        for read_only in (True, False):
            try:
                with Store.open(path, read_only=read_only) as store:
                    everything(store)
                    outcomes["answered"] += 1
            except StoreError as problem:
                assert str(path) in str(problem), seed
                outcomes[problem.kind] += 1
            assert not read_only or path.read_bytes() == data, seed
        try:
            saved = recover(path, new)
            assert saved.added + saved.skipped.total() > 0
            outcomes["rescued"] += 1
        except StoreError as problem:
            assert str(path) in str(problem), seed
        if new.exists():
            with Store.open(new) as store:
                everything(store)
                assert not store.skipped, seed
    assert outcomes["answered"] and outcomes["corrupt"] and outcomes["rescued"] > 20


def places(value):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from places(inner)


def mutated(rng: random.Random, text: str) -> str:
    """JSON with something changed that looks almost right, or not at all."""
    data = json.loads(text)
    for _ in range(rng.choice([1, 1, 2, 3])):
        place, key = rng.choice(list(places(data)))
        old = place[key]
        if isinstance(old, str) and rng.random() < 0.7:
            words = old.split() or [""]
            index = rng.randrange(len(words))
            words[index : index + 1] = rng.choice([[], [words[index]] * 2, [rng.choice(words)], ["|"], ["k.0!"], ["D:1"], ["C"]])
            place[key] = " ".join(words)
        elif isinstance(old, int) and rng.random() < 0.8:
            place[key] = rng.choice([0, 1, 2, 3, 7, 17, 1000, 10**6, 1 << 31, 1 << 70, -1, old * 2])
        else:
            strange = [None, True, [], {}, 1e308, "", "__import__('os')", "\0", "C", [["rfactor", "C", "k", 10**9, False]]]
            place[key] = rng.choice([*strange, "x" * 10_000, [["cache_read", "C", "B"]], [["cache_write", "C"]], [["inline", "C"]]])
    return json.dumps(data)


def test_rows_changed_anywhere(filled: Path, tmp_path: Path) -> None:
    """What is not valid is left out and counted; what is left answers."""
    path = tmp_path / "tune.db"
    skipped = 0
    for seed in range(60):
        rng = random.Random(seed)
        shutil.copyfile(filled, path)
        connection = sqlite3.connect(path)
        for table, column in (("workload", "json"), ("target", "json"), ("record", "candidate")):
            for number, text in connection.execute(f"SELECT id, {column} FROM {table}").fetchall():
                if rng.random() < 0.2:
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (mutated(rng, text), number))
        columns = ("uid", "cache", "threads", "run", "created", "candidate_key", "status", "seconds", "spread", "at_least", "cause")
        for column in rng.sample(columns, 2):
            value = rng.choice([b"\xff\0", "x", 1e300, -5, 1 << 62])
            connection.execute(f"UPDATE OR IGNORE record SET {column} = ? WHERE id = ?", (value, rng.randrange(1, 50)))
        connection.commit()
        connection.close()
        with Store.open(path) as store, Store.in_memory() as clean:
            everything(store)
            skipped += store.skipped.total()
            assert all(len(reason) <= 200 for reason in store.skipped)
            clean.merge(path)
            everything(clean)
            assert not clean.skipped, seed
    assert skipped > 100


def definition() -> list:
    a, b = ts.placeholder((16, 24), name="A"), ts.placeholder((24, 32), name="B", constant=True)
    k = ts.reduce_axis(24, name="k")
    c = ts.compute((16, 32), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, ts.compute((16, 32), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")]


def test_programs_of_a_stranger_are_right_or_not_used(tmp_path: Path) -> None:
    """A changed candidate is left out, or computes the same: there is no candidate that computes anything else."""
    path = tmp_path / "tune.db"
    workload = ts.workload(definition())
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) - 0.5 for shape in ((16, 24), (24, 32)))
    space = space_of(workload, TARGET)
    population = [space.plans[p.plan].candidate(row) for p in sample(space, 24, np.random.default_rng(1)) for row in p.matrix]
    with Store.open(path) as store:
        store.add(workload, TARGET, TIMING, [Trial(c, Status.OK, 1e-3) for c in population[:1]])
    used = 0
    for seed in range(60):
        turn = random.Random(seed)
        text = json.dumps(turn.choice(population).to_json(), default=int)
        connection = sqlite3.connect(path)
        connection.execute("UPDATE record SET candidate = ?", (mutated(turn, text),))
        connection.commit()
        connection.close()
        with Store.open(path, read_only=True) as store:
            used += store.best(workload, TARGET, TIMING) is not None
        got = ts.compile(definition(), database=path)(a, b)
        np.testing.assert_allclose(got, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5, err_msg=f"seed {seed}")
    assert 5 < used < 55
