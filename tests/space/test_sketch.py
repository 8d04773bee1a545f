"""Sketches: the loop notation, the checks, JSON."""

from __future__ import annotations

import copy
import itertools
import json
import re

import pytest

from tensorsmith.backends import sketches
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import define as ts
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.check import is_inside
from tensorsmith.space.sketch.loops import AttachPoint, Loops, NestLoop
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native


def matmul_relu(n=13):
    a = ts.placeholder((n, n), name="A")
    b = ts.placeholder((n, n), name="B", constant=True)
    k = ts.reduce_axis(n, name="k")
    c = ts.compute((n, n), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    return ts.workload([a, b, ts.compute((n, n), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")])


C = Nest("C", "k.0 | k.1 i.0 j.0", vector="j.0", at="D:4", packed=("B",))
ROOT = Nest("C", "i.0 j.0 | k.0")
D = Nest("D", "i.0 j.0 i.1 j.1 | i.2 j.2", vector="j.2")
SIZES = {"C.k.1": 4, "C.unroll": 2, "D.i.1": 2, "D.i.2": 3, "D.j.1": 2, "D.j.2": 12, "D.parallel": 2}


def test_nest_reads_the_notation():
    nest = Nest("C", "i.0 j.0! | k.0! i.1 j.1", vector="j.1", at="D:3")
    assert nest.outer == (NestLoop("i", 0), NestLoop("j", 0))
    assert nest.tile == (NestLoop("k", 0), NestLoop("i", 1), NestLoop("j", 1))
    assert nest.unrolled == {NestLoop("j", 0), NestLoop("k", 0)}
    assert nest.vector == NestLoop("j", 1)
    assert nest.parts == {"i": 2, "j": 2, "k": 1}
    assert nest.at == AttachPoint("D", 3)
    assert nest.sized == (NestLoop("i", 1), NestLoop("j", 1))
    assert str(nest) == "C: i.0 j.0! | k.0! i.1 j.1 vector j.1 at D:3"
    assert Nest("C", "i.0").tile == ()
    assert Nest("C", "| i.0").outer == ()


def test_axes_may_have_dots():
    assert NestLoop.read("k.f.1") == NestLoop("k.f", 1) and str(NestLoop("k.f", 1)) == "k.f.1"
    assert AttachPoint.read("C.rf:2") == AttachPoint("C.rf", 2) and str(AttachPoint("C.rf", 2)) == "C.rf:2"


@pytest.mark.parametrize("text", ["i.0 j.0 | k.0", "i.0  j.0 |", "i.0 j.0 | ", " | j.0", "| j.0!", "", "i.0"])
def test_a_nest_is_written_as_it_was_given(text):
    """Records are found by this text."""
    nest = Nest("C", text)
    assert str(nest.loops) == text
    assert nest == Nest("C", f" {text} ")


def test_loops_that_were_not_read_are_written():
    i, j = NestLoop("i", 0), NestLoop("j", 0)
    for loops in (Loops((i,), (j,)), Loops((), (j,)), Loops((i, j)), Loops((i, j), unrolled=frozenset({j}))):
        assert Loops.read(str(loops)) == loops


@pytest.mark.parametrize(
    "given, message",
    [
        ({"loops": "i.0 i.01 j.0 |"}, "nest of D: 'i.01' is no loop; write AXIS.PART, as in i.0"),
        ({"loops": "i.0 i.² j.0 |"}, "'i.²' is no loop"),
        ({"loops": "i.0 i |"}, "'i' is no loop"),
        ({"loops": "i.0 .1 |"}, "'.1' is no loop"),
        ({"loops": "i.0 | j.0 | i.1"}, "has more than one bar"),
        ({"loops": "i.0 |", "vector": "i"}, "'i' is no loop"),
        ({"loops": "i.0 |", "at": "D"}, "nest of D: attached at 'D'; write STAGE:DEPTH, as in D:3"),
        ({"loops": "i.0 |", "at": "D:-1"}, "write STAGE:DEPTH"),
    ],
)
def test_the_notation_is_checked(given, message):
    with pytest.raises(UserError, match=re.escape(message)):
        Nest("D", **given)


def test_holes():
    assert Sketch(matmul_relu(), (C, D)).check().holes == (
        "C.k.1", "C.unroll", "D.i.1", "D.i.2", "D.j.1", "D.j.2", "D.parallel",
    )  # fmt: skip


@pytest.mark.parametrize(
    "nests, message",
    [
        ((D,), "one nest for each of"),
        ((C, D, D), "one nest for each of"),
        ((ROOT, Nest("D", "i.0 j.0 x.0 |")), "the loop 'x.0' is of no axis of the stage, which has \\['i', 'j'\\]"),
        ((ROOT, Nest("D", "i.1 j.0 i.0 |")), "parts of axis i must come in order 0, 1, ...; got 'i.1'"),
        ((ROOT, Nest("D", "i.0 i.2 j.0 |")), "parts of axis i must come in order 0, 1, ...; got 'i.2'"),
        ((ROOT, Nest("D", "i.0 |")), "no loop for the axes \\['j'\\]"),
        ((ROOT, Nest("D", "i.0 j.0 | i.1 j.1 i.2")), "more than one loop of axis i"),
        ((ROOT, Nest("D", "i.0 j.0 | i.1", vector="j.0")), "vector loop 'j.0' must be one of the register tile's"),
        ((Nest("C", "i.0 j.0 | k.0 k.1", vector="k.0"), D), "'k.0' must be the last part of its axis"),
        ((Nest("C", "i.0 j.0 | k.0", packed=("X",)), D), "'X' is to be packed, but the stage does not read it"),
        ((Nest("C", "i.0 j.0 | k.0", at="X:1"), D), "attached to the unknown stage 'X'"),
        ((Nest("C", "i.0 j.0 | k.0", at="D:5"), D), "attached at depth 5 of D, which has 4 outer loops"),
        ((Nest("C", "i.0 j.0 | k.0", at="D:0"), D), "attached at depth 0 of D"),
        ((ROOT, Nest("D", "i.0 j.0 |", at="C:1")), "an output is computed at the root"),
    ],
)
def test_check_says_what_is_wrong(nests, message):
    with pytest.raises(UserError, match=message):
        Sketch(matmul_relu(), nests).check()


def chain():
    """P is read by Q and R, both read by S."""
    a = ts.placeholder((8,), name="A")
    p = ts.compute((8,), lambda i: a[i] + 1.0, name="P")
    q = ts.compute((8,), lambda i: p[i] * 2.0, name="Q")
    r = ts.compute((8,), lambda i: p[i] * 3.0, name="R")
    return ts.workload([a, ts.compute((8,), lambda i: q[i] + r[i], name="S")])


def test_a_reader_outside_is_refused():
    nests = [Nest("P", "| i.0", at="Q:1"), Nest("Q", "i.0 |", at="S:1"), Nest("R", "i.0 |", at="S:1"), Nest("S", "i.0 |")]
    with pytest.raises(Refusal, match="reader outside: P is attached at Q:1 but read by R"):
        Sketch(chain(), tuple(nests)).check()
    nests[0] = Nest("P", "| i.0", at="S:1")
    sketch = Sketch(chain(), tuple(nests)).check()
    assert is_inside(sketch, "P", AttachPoint("S", 1))
    assert not is_inside(sketch, "P", AttachPoint("Q", 1))
    assert [n.stage for n in sketch.attached("S", 1)] == ["P", "Q", "R"]


def test_stages_attached_in_a_circle_do_not_hang():
    nests = (Nest("P", "i.0 |", at="Q:1"), Nest("Q", "i.0 |", at="P:1"), Nest("R", "i.0 |"), Nest("S", "i.0 |"))
    assert not is_inside(Sketch(chain(), nests), "P", AttachPoint("S", 1))
    with pytest.raises(Refusal, match="reader outside"):
        Sketch(chain(), nests).check()


def test_candidate_needs_every_hole():
    sketch = Sketch(matmul_relu(), (C, D)).check()
    with pytest.raises(UserError, match=r"missing \['C.k.1'\], unknown \['x'\]"):
        Candidate(sketch, {**{h: v for h, v in SIZES.items() if h != "C.k.1"}, "x": 1})
    with pytest.raises(UserError, match="at least 1"):
        Candidate(sketch, {**SIZES, "C.k.1": 0})
    assert Candidate(sketch, {**SIZES, "D.parallel": 0})


def test_json_round_trip():
    workload = matmul_relu()
    candidate = Candidate(Sketch(workload, (C, D)).check(), SIZES)
    data = json.loads(json.dumps(candidate.to_json()))
    again = Candidate.from_json(workload, data)
    assert again == candidate
    assert again.to_json() == candidate.to_json()


GOOD = Candidate(Sketch(matmul_relu(), (C, D)).check(), SIZES).to_json()


def broken(path, value):
    data = copy.deepcopy(GOOD)
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    "data",
    [
        None, [], {}, "x", {"decisions": {}}, {"sketch": {}, "decisions": {}},
        broken(["sketch", "nests"], None),
        broken(["sketch", "nests"], 3),
        broken(["sketch", "nests", 0], "C"),
        broken(["sketch", "nests", 0, "stage"], None),
        broken(["sketch", "nests", 0, "stage"], "X"),
        broken(["sketch", "nests", 0, "loops"], "i.0"),
        broken(["sketch", "nests", 0, "loops"], 7),
        broken(["sketch", "nests", 0, "at"], "D:x"),
        broken(["sketch", "nests", 0, "at"], ":"),
        broken(["sketch", "nests", 0, "vector"], ["j.0"]),
        broken(["sketch", "nests", 0, "packed"], 3),
        broken(["sketch", "rewrites"], None),
        broken(["sketch", "rewrites"], [["inline"]]),
        broken(["sketch", "rewrites"], [["explode", "C"]]),
        broken(["sketch", "rewrites"], [["inline", "X"]]),
        broken(["sketch", "rewrites"], [["rfactor", "C", "k", "many", True]]),
        broken(["decisions", "C.k.1"], "four"),
        broken(["decisions", "C.k.1"], None),
        broken(["decisions", "C.k.1"], -4),
        broken(["decisions"], [1]),
    ],
)  # fmt: skip
def test_malformed_json_is_a_user_error(data):
    with pytest.raises(UserError):
        Candidate.from_json(matmul_relu(), data)


def test_text():
    assert Sketch(matmul_relu(), (C, D)).brief() == (
        "C: k.0 | k.1 i.0 j.0 vector j.0 at D:4 packed B\nD: i.0 j.0 i.1 j.1 | i.2 j.2 vector j.2"
    )


@pytest.mark.parametrize("m, n, k", [(8, 1, 1), (1, 8, 1), (8, 1, 8), (8, 8, 1), (1, 1, 1), (32, 1, 32), (32, 32, 32)])
def test_copies_follow_axes_of_one_element_too(m, n, k):
    """An axis of one element has no tiles, so that none of its loops may be left where a copy is made."""
    a, b, v = ts.placeholder((m, k), name="A"), ts.placeholder((k, n), name="B"), ts.placeholder((n,), name="V")
    x = ts.reduce_axis(k, "k")
    product = ts.compute((m, n), lambda i, j: ts.sum(a[i, x] * b[x, j], axis=x), name="C")
    scaled = ts.compute((m, n), lambda i, j: ts.sum(a[i, x] * v[j], axis=x), name="C")
    for w in (ts.workload([a, b, product]), ts.workload([a, v, scaled])):
        for sketch in sketches(w, target=native()):
            for options in itertools.product(*(range(len(c.options)) for c in sketch.choices)):
                resolved = sketch.resolve({c.hole: n for c, n in zip(sketch.choices, options)})
                lower(Candidate(resolved, dict.fromkeys(resolved.holes, 1)))
