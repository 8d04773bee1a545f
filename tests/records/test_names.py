"""The same computation under other names: its records are found, its candidates are the same programs, nothing is stored twice."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given, note
from tests.property.agreement import describe
from tests.property.definitions import random_workload
from tests.property.schedules import random_candidate
from tests.random_draws import SOURCES, many
from tests.records.samples import TARGET, TIMING, failure, matmul, trial

from tensorsmith.backends import backend_of
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower
from tensorsmith.records import Store, Timing, candidate_key
from tensorsmith.records.names import renamed
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import Alias, CacheRead, CacheWrite, Inline, Rfactor
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native

W = matmul()
PRODUCT = matmul(name="product")
OTHER = W.with_names(["left", "right", "product"], [["row", "column", "depth"]])

#: with what rewrites would call things, and what separates names in candidates
TENSOR_NAMES = ("C", "C.cache", "C.rf", "B.pack", "a:1", "x.0", "t1", "t0", "parallel", "A", "ß", "T2", "T1", "T", "i")
AXIS_NAMES = ("i", "j", "k", "k_f", "k.0", "unroll", "x", "i0", "i1", "i2", "n!", "C", "w.1")


def under_other_names(workload: Workload, rng: Random) -> Workload:
    """The workload with names drawn from those that may confuse, and from its own in another order."""
    mine = [b.name for b in (*workload.inputs, *workload.stages)]
    tensors = rng.sample(sorted({*mine, *TENSOR_NAMES}), len(mine))
    axes = [rng.sample(AXIS_NAMES, len(s.all_axes)) for s in workload.stages]
    return workload.with_names(tensors, axes).check()


def in_order(workload: Workload) -> Workload:
    """The workload with other names that sort like its own."""
    mine = [b.name for b in (*workload.inputs, *workload.stages)]
    return workload.with_names(
        [f"n{sorted(mine).index(name):03}" for name in mine], [[f"{a.name}z" for a in s.all_axes] for s in workload.stages]
    )


def instructions(candidate: Candidate) -> Counter[str]:
    """Those of the LLVM IR, without the names of values: the stack is laid out by the names of buffers."""
    return Counter(re.sub(r"%[tb]\d+", "%", line) for line in generate(lower(candidate), native()).ir.splitlines())


@pytest.mark.parametrize("source, examples", [("shrinking", 60), ("seeded", 140)])
def test_random_workloads_under_other_names_find_each_others_records(source, examples):
    outcomes: Counter[str] = Counter()

    @many(examples, repeatable=True)
    @given(SOURCES[source])
    def check(rng: Random) -> None:
        workload = random_workload(rng)
        candidate = random_candidate(workload, rng)
        other = under_other_names(workload, rng)
        note(describe(workload, candidate))
        note(str(other))
        assert other.canonical_key == workload.canonical_key
        with Store.in_memory() as store:
            store.add(workload, TARGET, TIMING, [Trial(candidate, Status.OK, 1e-3)])
            found = store.best(other, TARGET, TIMING)
            if found is None:  # a name that a rewrite makes is taken
                assert "name taken" in str(store.skipped)
                outcomes["name taken"] += 1
                return
            assert found.workload == other
            assert store.measured(other, TARGET, TIMING) == {found.key}
            store.add(other, TARGET, TIMING, [found.trial])
            assert len({r.key for r in store.history(workload, TARGET, TIMING)}) == 1
        assert candidate_key(renamed(found.candidate, workload)) == candidate_key(candidate)
        try:
            assert instructions(found.candidate) == instructions(candidate)
        except Refusal as refusal:
            outcomes[refusal.cause] += 1
            return
        outcomes["same program"] += 1

    check()
    assert outcomes["same program"] > 0.8 * sum(outcomes.values()), outcomes


def test_machine_code_does_not_depend_on_names():
    """Byte by byte, where names sort alike: the stack is laid out in their order."""
    compared = 0
    for seed in range(12):
        rng = Random(seed)
        workload = random_workload(rng)
        candidate = random_candidate(workload, rng)
        other = renamed(candidate, in_order(workload))
        try:
            codes = [backend_of(native()).generate(lower(c), native()).code.data for c in (candidate, other)]
        except Refusal:
            continue
        assert codes[0] == codes[1]
        compared += 1
    assert compared > 9


def test_every_rewrite_and_every_word_of_a_nest_is_told_in_other_names():
    a, b = ts.placeholder((64, 32), name="A"), ts.placeholder((32, 48), name="B")
    k = ts.reduce_axis(32, name="k")
    p = ts.compute((64, 32), lambda i, j: a[i, j] + 1.0, name="P")
    c = ts.compute((64, 48), lambda i, j: ts.sum(p[i, k] * b[k, j], axis=k), name="C")
    d = ts.compute((64, 48), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")
    e = ts.compute((64 * 48,), lambda n: d[n // 48, n % 48], name="E")
    workload = ts.workload([a, b, e])
    rewrites = (
        Inline("P"),
        Alias("E"),
        CacheRead("C", "B"),
        CacheWrite("D"),
    )
    nests = (
        Nest("B.pack", "k.0 | j.0", vector="j.0", follows="C"),
        Nest("C", "k.0 | k.1! i.0 j.0", vector="j.0", at="D.cache:2"),
        Nest("D.cache", "i.0 j.0 | i.1 j.1", vector="j.1"),
        Nest("D", "i.0 | j.0", vector="j.0"),
    )
    sketch = Sketch(workload, nests, rewrites).check()
    other = workload.with_names(["x", "y", "p", "q", "r", "s"], [["u", "v"], ["u", "v", "w"], ["l", "m"], ["z"]])
    found = renamed(Candidate(sketch, {h: n + 2 for n, h in enumerate(sketch.holes)}), other)
    assert found.sketch.brief().splitlines() == [
        "inline(p)",
        "alias(s)",
        "cache_read(q, y)",
        "cache_write(r)",
        "y.pack: w.0 | v.0 vector v.0 follows q",
        "q: w.0 | w.1! u.0 v.0 vector v.0 at r.cache:2",
        "r.cache: l.0 m.0 | l.1 m.1 vector m.1",
        "r: l.0 | m.0 vector m.0",
    ]
    assert list(found.decisions.values()) == [n + 2 for n in range(len(sketch.holes))]
    assert found.decisions["q.w.1"] == Candidate(sketch, dict(zip(sketch.holes, range(2, 99)))).decisions["C.k.1"]


def test_packed_tensors_and_split_reductions_too():
    sketch = Sketch(
        W,
        (Nest("C.rf", "i.0 j.0 k_f.0 | k.0", packed=("B",)), Nest("C", "i.0 j.0 | k_f.0")),
        (Rfactor("C", "k", 4, True),),
    ).check()
    found = renamed(Candidate(sketch, dict.fromkeys(sketch.holes, 1)), OTHER)
    assert found.sketch.brief().splitlines() == [
        "rfactor(product, depth, 4, inner)",
        "product.rf: row.0 column.0 depth_f.0 | depth.0 packed right",
        "product: row.0 column.0 | depth_f.0",
    ]


def test_symmetric_workloads_are_told_apart_by_place():
    """Two stages that compute alike: each keeps its own nest."""
    a = ts.placeholder((64,), name="A")
    one, two = (ts.compute((64,), lambda i: a[i] * 2.0, name=n) for n in ("one", "two"))
    workload = ts.workload([a, one, two])
    sketch = Sketch(workload, (Nest("one", "i.0 | i.1", vector="i.1"), Nest("two", "i.0"))).check()
    candidate = Candidate(sketch, {"one.i.1": 8, "one.parallel": 1, "two.parallel": 0})
    other = workload.with_names(["A", "two", "one"], [["i"], ["i"]])
    assert renamed(candidate, other).decisions == {"two.i.1": 8, "two.parallel": 1, "one.parallel": 0}


def test_all_questions_are_answered_in_the_names_of_who_asks():
    with Store.in_memory() as store:
        store.add(W, TARGET, TIMING, [trial(W, 2e-3, 1), trial(W, 1e-3, 2), failure(W)])
        here = [trial(PRODUCT, s, i) for s, i in ((2e-3, 1), (1e-3, 2))]
        assert [r.trial for r in store.top(PRODUCT, TARGET, TIMING, 5)] == here[::-1]
        assert [r.trial for r in store.history(PRODUCT, TARGET, TIMING)] == [*here, failure(PRODUCT)]
        assert store.measured(PRODUCT, TARGET, TIMING) == {candidate_key(t.candidate) for t in (*here, failure(PRODUCT))}
        assert store.failed(PRODUCT, TARGET) == {candidate_key(failure(PRODUCT).candidate)}
        ((count, example),) = store.failures(PRODUCT).values()
        assert (count, example.trial) == (1, failure(PRODUCT))
        assert store.why_missing(PRODUCT, TARGET, TIMING) == ""
        assert [p.records for p in store.key_parts(PRODUCT, TARGET, TIMING)] == [3, 3, 3]
        larger = matmul(64, name="Z")
        (record, *_) = store.similar(larger, TARGET, TIMING)
        assert record.workload == W.named_like(larger)
        assert record.trial == trial(W.named_like(larger), 1e-3, 2)


def test_a_computation_is_stored_under_the_names_of_the_first():
    with Store.in_memory() as store:
        store.add(W, TARGET, TIMING, [trial(W, 2e-3, 1)])
        store.add(PRODUCT, TARGET, TIMING, [trial(PRODUCT, 1e-3, 1), trial(PRODUCT, 3e-3, 2)])
        (summary,) = store.workloads()
        assert (summary.workload, summary.trials, summary.best) == (W, 3, 1e-3)
        assert [r.trial for r in store.top(W, TARGET, TIMING, 5)] == [trial(W, 1e-3, 1), trial(W, 3e-3, 2)]
        store.add(PRODUCT, TARGET, Timing("cold", 2), [failure(PRODUCT, i=1)])  # a crash counts under every name
        assert [r.trial for r in store.top(W, TARGET, TIMING, 5)] == [trial(W, 3e-3, 2)]


def test_what_cannot_be_told_in_the_first_names_keeps_its_own():
    """`k_f` is an axis there, so a reduction over k cannot be split into k_f and k."""
    blocked = W.with_names(["A", "B", "C"], [["i", "k_f", "k"]])
    nests = Nest("C.rf", "i.0 j.0 k_f.0 | k.0"), Nest("C", "i.0 j.0 | k_f.0")
    sketch = Sketch(W, nests, (Rfactor("C", "k", 4),)).check()
    split = Trial(Candidate(sketch, dict.fromkeys(sketch.holes, 1)), Status.OK, 1e-3)
    with pytest.raises(Refusal, match="name taken"):
        renamed(split.candidate, blocked)
    with Store.in_memory() as store:
        plain = Sketch(blocked, (Nest("C", "i.0 k_f.0 | k.0"),)).check()
        store.add(blocked, TARGET, TIMING, [Trial(Candidate(plain, dict.fromkeys(plain.holes, 1)), Status.OK, 2e-3)])
        store.add(W, TARGET, TIMING, [split])
        assert store.best(W, TARGET, TIMING).trial == split
        assert [r.seconds for r in store.top(W, TARGET, TIMING, 5)] == [1e-3, 2e-3]
        assert [r.seconds for r in store.top(blocked, TARGET, TIMING, 5)] == [2e-3]


def test_a_computation_of_another_kind_is_not_taken_for_it():
    """A row whose canonical key is another workload's is left out, whatever its records say."""
    square = matmul(16, 16)
    with Store.in_memory() as store:
        store.add(square, TARGET, TIMING, [trial(square)])
        store._connection.execute("UPDATE workload SET canonical = ?", (W.canonical_key,))
        assert store.best(W, TARGET, TIMING) is None
        assert store.skipped == {"workload: it is not the computation its key says": 1}


def test_a_rewrite_that_nobody_knows_is_not_guessed():
    class Form(Sketch):
        def to_json(self):
            return {"rewrites": [["fold", "C", "k"]], "nests": []}

    with pytest.raises(UserError, match="the rewrite fold cannot be told in other names"):
        renamed(Candidate(Form(W, ()), {}), OTHER)
