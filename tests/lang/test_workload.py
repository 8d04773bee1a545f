"""Workloads: checks with readable messages, JSON, and the content key."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.expr import Var
from tensorsmith.lang.workload import Workload, topological


def matmul(n=4, m=5, k=6, dtype="f32", constant=False, bias=0.0):
    a = ts.placeholder((n, k), dtype, name="A")
    b = ts.placeholder((k, m), dtype, name="B", constant=constant)
    over = ts.reduce_axis(k, "k")
    c = ts.compute((n, m), lambda i, j: ts.sum(a[i, over] * b[over, j], axis=over), name="C")
    d = ts.compute((n, m), lambda i, j: ts.maximum(c[i, j] + bias, 0), name="D")
    return ts.workload([a, b, d])


def test_text():
    assert str(matmul(constant=True)) == "\n".join(
        [
            "A: input f32[4, 6]",
            "B: constant f32[6, 5]",
            "C[i<4, j<5]: f32 = sum(A[i, k] * B[k, j], over k<6)",
            "D[i<4, j<5]: f32 = max(C[i, j] + 0.0, 0.0)",
            "return D",
        ]
    )


def test_structure():
    w = matmul()
    assert w.consumers == {"A": ("C",), "B": ("C",), "C": ("D",), "D": ()}
    assert list(w.buffers) == ["A", "B", "C", "D"]
    assert w.buffers["A"].bytes == 4 * 6 * 4
    assert w.is_stage("C")
    assert not w.is_stage("A")
    assert w.stage("C").axis("k").extent == 6
    assert [a.name for a in w.stage("C").all_axes] == ["i", "j", "k"]
    assert [x.tensor for x in w.stage("C").reads] == ["A", "B"]


def test_stages_are_ordered_by_what_they_read():
    w = matmul()
    assert [s.name for s in topological(reversed(w.stages))] == ["C", "D"]


A = ts.placeholder((4, 5), name="A")
B = ts.placeholder((4,), "i32", name="B")
k = ts.reduce_axis(5, "k")


def one(shape, body, name="C", inputs=(A,)):
    return lambda: ts.workload([*inputs, ts.compute(shape, body, name=name)])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (one((4, 6), lambda i, j: A[i, j] + 0), ["stage C", "A[i, j]", "dimension 1 of A", "`j`", "0..5", "0..4"]),
        (one((4,), lambda i: A[i - 1, 0]), ["stage C", "`i - 1`", "-1..2", "0..3", "select()"]),
        (one((4,), lambda i: A[i, 5]), ["dimension 1 of A", "5..5", "0..4"]),
        (one((4,), lambda i: ts.select(i < 2, A[i + 2, 0], A[i + 1, 0])), ["`i + 1`", "3..4"]),
        (one((4,), lambda i: A[i, k] + 0), ["stage C", "unknown axis 'k'", "has i"]),
        (one((5,), lambda k_: ts.sum(A[0, k] * A[1, k_], axis=[k, k])), ["stage C", "'k'", "twice"]),
        (one((4,), lambda k: ts.sum(A[k, Var("k")], axis=ts.reduce_axis(5, "k"))), ["stage C", "'k'", "twice"]),
        (one((4,), lambda i: ts.max(A[i, k] < 1, axis=k)), ["stage C", "cannot reduce bool by max"]),
        (one((4,), lambda i: A[i, 0] + 0, inputs=()), ["A is read but not in the list"]),
        (one((4,), lambda i: A[i, 0] + 0, name="A"), ["two different tensors are called 'A'"]),
        (one((4,), lambda i: A[i, 0] + 0, inputs=(A, A)), ["two tensors are called 'A'"]),
        (lambda: ts.workload([A]), ["no output"]),
        (lambda: ts.workload([A, 3]), ["expected tensors", "int"]),
    ],
)  # fmt: skip
def test_refusals_name_stage_axis_and_numbers(build, words):
    with pytest.raises(UserError) as caught:
        build()
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        lambda i: ts.select(i < 4, A[i, 0], 0),
        lambda i: ts.select((i >= 2) & (i < 6), A[i - 2, 4], 0),
        lambda i: ts.select(i < 4, 0.0, A[i - 4, 0]),  # the condition does not hold in the other branch
        lambda i: ts.select((i < 2) | (i >= 6), 0.0, A[i - 2, 0]),
        lambda i: ts.select(~(i < 4), 0.0, A[i, 0]),
        lambda i: A[i // 2, i % 5],
        lambda i: A[ts.minimum(i, 3), 0],
    ],
)
def test_guarded_loads_are_accepted(body):
    one((8,), body)()


def test_indices_from_data_are_accepted():
    one((4,), lambda i: A[B[i], 0], inputs=(A, B))()


def test_empty_axes_read_nothing():
    assert one((0,), lambda i: A[i + 9, 0])().buffers["C"].shape == (0,)


def test_json_round_trip():
    inf = float("inf")
    e = ts.compute(
        (4, 5),
        lambda i, j: ts.select(A[i, j] < inf, ts.exp(-A[i, j]) / 3, ts.cast("f32", B[i] % 7) ** 0.1),
        name="E",
    )
    for w in (matmul(), matmul(constant=True, dtype="f64"), ts.workload([A, B, e])):
        text = json.dumps(w.to_json(), allow_nan=False)
        again = Workload.from_json(json.loads(text))
        assert again == w
        assert again.key == w.key
        assert str(again) == str(w)


def test_key_is_the_same_in_every_process():
    code = "import sys; sys.path.insert(0, %r); import test_workload; print(test_workload.matmul().key)"
    folder = __file__.rsplit("/", 1)[0]
    found = {
        subprocess.run(
            [sys.executable, "-c", code % folder],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {matmul().key}


def test_key_tells_workloads_apart():
    variants = [
        matmul(),
        matmul(n=8),
        matmul(k=7),
        matmul(dtype="f64"),
        matmul(constant=True),
        matmul(bias=1.0),
        matmul(bias=-0.0),
        matmul(bias=float("nan")),
    ]
    assert len({w.key for w in variants}) == len(variants)
    assert matmul().key == matmul().key


def broken(change):
    data = json.loads(json.dumps(matmul().to_json()))
    result = change(data)
    return data if result is None else result


def deep(data):
    body = ["load", "C", "f32", ["var", "i"], ["var", "j"]]
    for _ in range(5000):
        body = ["neg", body]
    data["stages"][1]["body"] = body


def set_in(*path, to):
    def change(data):
        for part in path[:-1]:
            data = data[part]
        data[path[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_in("format", to=99),
        lambda d: d.pop("stages") and None,
        lambda d: [],
        lambda d: "text",
        set_in("stages", to=["C"]),
        set_in("stages", to=3),
        set_in("stages", 0, "axes", to=[["i", 4]]),
        set_in("stages", 0, "axes", 0, to=["i", -4]),
        set_in("stages", 0, "axes", 0, to=["i", 4.5]),
        set_in("stages", 0, "axes", 0, to=["i", True]),
        set_in("stages", 0, "axes", 0, to=["i", 5]),
        set_in("stages", 0, "axes", 0, to=["j", 4]),
        set_in("stages", 0, "reduce", to=["median", [["k", 6]]]),
        set_in("stages", 0, "reduce", to=["sum", []]),
        set_in("stages", 0, "reduce", to=["sum"]),
        set_in("stages", 0, "body", to=["frobnicate", ["var", "i"]]),
        set_in("stages", 0, "body", to=["add", ["var", "i"]]),
        set_in("stages", 0, "body", to=["exp", ["var", "i"]]),
        set_in("stages", 0, "body", to=["var"]),
        set_in("stages", 0, "body", to=[]),
        set_in("stages", 0, "body", to=None),
        set_in("stages", 0, "body", to=["const", 300, "u8"]),
        set_in("stages", 0, "body", to=["const", 1.5, "i32"]),
        set_in("stages", 0, "body", to=["const", "abc", "f32"]),
        set_in("stages", 0, "body", to=["load", "nowhere", "f32", ["var", "i"]]),
        set_in("stages", 0, "body", to=["load", "A", "f64", ["var", "i"], ["var", "k"]]),
        set_in("stages", 0, "body", to=["load", "A", "f32", ["var", "i"]]),
        set_in("stages", 0, "body", to=["load", "D", "f32", ["var", "i"], ["var", "j"]]),
        set_in("stages", 0, "body", to=["load", "C", "f32", ["var", "i"], ["var", "j"]]),
        set_in("stages", 1, "name", to="C"),
        set_in("stages", 1, "name", to="A"),
        set_in("inputs", 0, to=["A", [-4, 6], "f32"]),
        set_in("inputs", 0, to=["A", ["4", 6], "f32"]),
        set_in("inputs", 0, to=["A", [4, 6], "f33"]),
        set_in("outputs", to=["Z"]),
        set_in("outputs", to=["A"]),
        deep,
    ],
)
def test_malformed_json_is_a_user_error(change):
    with pytest.raises(UserError):
        Workload.from_json(broken(change))


def test_json_data_is_not_changed_by_reading():
    data = matmul().to_json()
    before = copy.deepcopy(data)
    Workload.from_json(data)
    assert data == before


def multiplied(names=("A", "B", "C"), axes=("i", "j", "k"), reduction=ts.sum, shape=(4, 5)):
    k = ts.reduce_axis(6, name=axes[2])
    a, b = ts.placeholder((shape[0], 6), name=names[0]), ts.placeholder((6, shape[1]), name=names[1])
    product = ts.compute(shape, lambda i, j: reduction(a[i, k] * b[k, j], axis=k), name=names[2])
    return ts.workload([a, b, product]).with_names(names, [axes])


def test_names_say_nothing_and_all_else_does():
    w, other = multiplied(), multiplied(("C", "A", "x.y"), ("k", "i", "A"))
    assert w.key != other.key
    assert w.canonical_key == other.canonical_key == w.canonical.key == other.canonical.canonical_key
    assert other.named_like(w) == w
    assert str(w.canonical).splitlines()[2] == "t2[i0<4, i1<5]: f32 = sum(t0[i0, i2] * t1[i2, i1], over i2<6)"
    for unlike in (multiplied(shape=(4, 6)), multiplied(reduction=ts.max)):
        assert unlike.canonical_key != w.canonical_key


def test_operands_keep_their_places():
    a, b = ts.placeholder((8, 8), name="A"), ts.placeholder((8, 8), name="B")
    bodies = [lambda i, j: a[i, j] - b[i, j], lambda i, j: b[i, j] - a[i, j], lambda i, j: a[i, j] - a[i, j]]
    bodies.append(lambda i, j: a[j, i] - b[i, j])
    assert len({ts.workload([a, b, ts.compute((8, 8), body, name="C")]).canonical_key for body in bodies}) == len(bodies)


def test_names_are_changed_once_for_each_node():
    """As a tree this has 2^60 nodes."""
    first, second = (ts.placeholder((8,), "i64", name) for name in ("N", "M"))

    def body(i):
        for _ in range(60):
            i = first[i] + second[i]
        return i

    w = ts.workload([first, second, ts.compute((8,), body, name="V")])
    assert w.canonical.named_like(w) == w


def test_there_have_to_be_as_many_names_as_things():
    w = multiplied()
    with pytest.raises(ValueError, match="shorter"):
        w.with_names(["A", "B"], [["i", "j", "k"]])
    with pytest.raises(ValueError, match="shorter"):
        w.with_names(["A", "B", "C"], [["i", "j"]])
