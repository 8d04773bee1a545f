"""A value that is used again is one node, and whatever goes through an expression visits it once."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest
from tests.lang.reuse import KINDS, ROWS, doubled, in_one_body, mesh, windows

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang import interned
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Axis, Const, Load, Var, depth, joined, shared, substitute, transform, uses, walk, written_out
from tensorsmith.lang.flops import flops, stage_flops
from tensorsmith.lang.inline import fits, inline
from tensorsmith.lang.workload import Workload

LONG = 60


def nested(n):
    value = Load("A", (Var("i"),), "f32")
    for _ in range(n):
        value = value + value
    return value


def test_equal_nodes_are_one():
    assert nested(5) is nested(5)
    assert Const(float("nan"), "f32") is Const(float("nan"), "f32")
    different = [Const(0.0, "f32"), Const(-0.0, "f32"), Const(0, "f32"), Const(0.0, "f64"), Const(0, "i64"), Const(False, "bool")]
    different += [Var("i"), Axis("i", 3), Axis("i", 4)]
    assert len({id(e) for e in different}) == len(different)


def test_reads_of_two_tensors_of_one_name_stay_two():
    a, b = ts.placeholder((4,), name="A"), ts.placeholder((4,), name="A")
    t = ts.compute((4,), lambda i: a[i] + b[i], name="T")
    with pytest.raises(UserError, match="two different tensors are called 'A'"):
        ts.workload([a, t])


def test_nodes_that_nobody_uses_are_forgotten():
    gc.collect()
    before = len(interned._nodes)
    held = Load("a tensor of this test", (Var("an axis of this test"),), "f32") + 1.0
    assert len(interned._nodes) > before
    del held
    gc.collect()
    assert len(interned._nodes) <= before


def test_walks_visit_each_node_once():
    e = nested(LONG)
    assert len(list(walk(e))) == LONG + 2
    assert written_out(e) == 2**LONG * 3 - 1
    assert depth(e) == LONG + 2
    assert uses(e)[e] == 1 and set(uses(e).values()) == {1, 2}
    assert len(shared(e)) == LONG  # all sums but the last, and the load
    seen = []
    transform(e, lambda x: seen.append(x))
    assert len(seen) == LONG + 2
    moved = substitute(e, {"i": Var("j")})
    assert len(list(walk(moved))) == LONG + 2 and not set(walk(moved)) & set(walk(e))


def test_conditions_that_repeat_themselves():
    i = Var("i")
    cond = i < 8
    for _ in range(LONG):
        cond = cond & cond
    assert joined(cond, "and") == [i < 8]
    a = ts.placeholder((8,), name="A")
    w = ts.workload([a, ts.compute((12,), lambda i: ts.select(substitute(cond, {"i": i}), a[i], 0.0), name="T")])
    got = evaluate(w, {"A": np.ones(8, np.float32)})["T"]
    assert got.tolist() == [1.0] * 8 + [0.0] * 4


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_text_json_key_and_value(kind):
    w = kind(LONG)
    assert len(str(w)) < 30_000
    data = json.dumps(w.to_json())
    assert len(data) < 60_000
    again = Workload.from_json(json.loads(data))
    assert again == w and again.key == w.key
    assert flops(w) < 500 * LONG * LONG
    values = evaluate(w, random_inputs(w))
    assert all(np.isfinite(values[name]).all() for name in w.outputs)


def test_long_text_names_its_parts():
    text = str(in_one_body(20).stage("Y").body)
    assert text.startswith("t") and "; t3 = t2 * tanh(t2) + t2" in text
    assert "where" not in str(in_one_body(3).stage("Y").body)


def test_parts_in_json_come_before_their_use():
    data = in_one_body(20).to_json()
    data["stages"][0]["parts"][3] = ["part", 3]
    with pytest.raises(UserError, match="part 3 of 3"):
        Workload.from_json(data)


def test_values_are_those_of_plain_numpy():
    w = in_one_body(16)
    x = random_inputs(w)["A"].astype(np.float64)
    got = evaluate(w, {"A": x.astype(np.float32)}, precise=True)["Y"]
    x = x.astype(np.float32).astype(np.float64)
    for _ in range(16):
        x = x * np.tanh(x) + x
    np.testing.assert_allclose(got, x, rtol=1e-6)


def test_a_value_used_again_counts_once():
    a = ts.placeholder((10,), name="A")
    silu = ts.compute((10,), lambda i: (a[i] + 1.0) * ts.sigmoid(a[i] + 1.0), name="S")
    assert stage_flops(silu.stage) == 10 * 3
    leaky = ts.compute((10,), lambda i: ts.select(a[i] * 2.0 < 0.0, a[i] * 2.0, (a[i] * 2.0 + 1.0) * 0.5), name="L")
    assert stage_flops(leaky.stage) == 10 * 3


def test_too_deep_a_body_is_refused():
    a = ts.placeholder((10,), name="A")

    def body(i):
        total = a[i]
        for k in range(2000):
            total = total + float(k)
        return total

    with pytest.raises(UserError, match="stage T: 2002 operations of its body stand inside each other, at most 256 may"):
        ts.compute((10,), body, name="T")


def inlined(w):
    for stage in w.stages[:-1]:
        if fits(w, stage.name):
            w = inline(w, stage.name)
    return w


def test_inlining_at_one_place_repeats_nothing():
    w = doubled(LONG)
    after = inlined(w)
    assert len(after.stages) == 1
    assert len(list(walk(after.stages[0].body))) == 2 * LONG + 3  # a sum and a product each, the load, its index, the half
    assert stage_flops(after.stages[0]) == flops(w)


@pytest.mark.parametrize("kind", ROWS, ids=lambda k: k.__name__)
def test_inlining_keeps_bodies_and_repetition_small(kind):
    w = kind(LONG)
    after = inlined(w).check()
    assert all(len(list(walk(s.body))) <= 256 for s in after.stages)
    assert flops(after) <= 8 * flops(w)
    given = random_inputs(w)
    want, got = evaluate(w, given), evaluate(after, given)
    for name in w.outputs:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)


def test_a_body_that_would_be_too_large_is_not_inlined():
    w = doubled(400)
    for stage in w.stages[:150]:
        w = inline(w, stage.name) if fits(w, stage.name) else w
    large = next(s for s in w.stages[:-1] if not fits(w, s.name))
    with pytest.raises(Refusal, match="inlined body too large"):
        inline(w, large.name)


def test_places_that_coincide_are_computed_once():
    """The windows of windows overlap: of n of them in a row there are n * (n + 1) / 2 sums, not 2**n."""
    w = windows(6)
    body = inlined(w).stages[-1].body
    assert len([e for e in walk(body) if getattr(e, "op", "") == "mul"]) == 21


def test_mesh_of_stages_is_one_stage_while_it_is_small():
    assert len(inlined(mesh(4)).stages) == 1
