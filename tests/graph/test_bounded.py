"""Bounded variants: one compilation is right at every size of its range, with anything at all behind what a call has."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import tensorsmith as ts
from tensorsmith.errors import InternalError, Refusal, UserError
from tensorsmith.graph.numbers import SizeNumber, size_number
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.lang.counts import Digit, end, fixed, is_plain, regrouped, size, value
from tensorsmith.runtime.variants.bounds import Bounds
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.runtime.variants.ranges import top

DRAWN = np.random.default_rng(1)
WEIGHTS = {
    "w": DRAWN.uniform(-1, 1, (6, 6)).astype(np.float32),
    "scale": DRAWN.uniform(-1, 1, (6,)).astype(np.float32),
    "table": DRAWN.uniform(-1, 1, (600, 6)).astype(np.float32),
    "filter": DRAWN.uniform(-1, 1, (5, 3, 3, 3)).astype(np.float32),
    "zeros": np.array([0], np.int64),
    "ones": np.array([1], np.int64),
    "twos": np.array([2], np.int64),
    "minus": np.array([-1], np.int64),
    "far": np.array([-1000], np.int64),
    "rows": np.array([-1, 6], np.int64),
    "heads": np.array([0, 0, 2, 3], np.int64),
    "flat": np.array([0, 0, 6], np.int64),
    "pad": np.array([1, 0, 0, 0], np.int64),
    "zero": np.array(0, np.int64),
    "one": np.array(1, np.int64),
}
SIZES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 37, 47, 48, 49, 63, 64, 65, 97, 127, 128)


def opened(body: str, inputs: str = "float[n, 6] x") -> OpenModel:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float y) {{ {body} }}'
    proto: onnx.ModelProto = parser.parse_model(text)
    for name, array in WEIGHTS.items():
        if any(name in node.input for node in proto.graph.node):
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
    names = {d for word in inputs.replace("[", " ").replace("]", " ").replace(",", " ").split() if (d := word) in ("n", "m")}
    made = ts.load(proto, shapes=dict.fromkeys(sorted(names)))
    assert isinstance(made, OpenModel)
    return made


def drawn(model: OpenModel, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    shapes = [(a.at(sizes), a.dtype) for a in model.inputs]
    return [
        generator.integers(0, 5, shape) if dtype == "i64" else generator.uniform(-1, 1, shape).astype(np.float32)
        for shape, dtype in shapes
    ]


def poison(executable: OpenExecutable) -> None:
    """Fills all that a call could read beyond what it has: with NaN, and with the largest integers."""
    for variant in executable.ranges:
        for inputs, outputs in variant._free:
            for array in (*inputs, *outputs):
                array.reshape(-1).view(np.uint8).fill(0xFF)
        for frame in variant.executable._running.frames.values():  # type: ignore[attr-defined]
            frame.poison()


def check(model: OpenModel, every: Sequence[Mapping[str, int]]) -> OpenExecutable:
    executable = ts.compile(model)
    for number, sizes in enumerate(every):
        given = drawn(model, sizes, number)
        wanted = model.at(**sizes).evaluate(given)["y"]
        for again in range(2):
            got = executable(*given)
            assert got.shape == wanted.shape, sizes
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=f"{sizes}, call {again}")
            poison(executable)
    return executable


BOUNDED = {
    "activation": "y = Tanh(x)",
    "rows times a weight": "h = MatMul(x, w) y = Relu(h)",
    "columns in order": "y = Transpose<perm = [1, 0]>(x)",
    "softmax of a row": "y = Softmax<axis = 1>(x)",
    "softmax of a column": "y = Softmax<axis = 0>(x)",
    "sum": "y = ReduceSum<keepdims = 0>(x, zeros)",
    "sum of all": "y = ReduceSum(x)",
    "largest": "y = ReduceMax<axes = [0]>(x)",
    "mean": "y = ReduceMean<axes = [0]>(x)",
    "mean of all": "m = ReduceMean<axes = [0, 1]>(x) y = Sub(x, m)",
    "outer product": "t = Transpose<perm = [1, 0]>(x) y = MatMul(x, t)",
    "inner product": "t = Transpose<perm = [1, 0]>(x) y = MatMul(t, x)",
    "attention": """t = Transpose<perm = [1, 0]>(x) s = MatMul(x, t) p = Softmax<axis = -1>(s) v = MatMul(x, w) y = MatMul(p, v)""",
    "normalised rows": "y = LayerNormalization<axis = -1>(x, scale)",
    "a table of positions": """s = Shape(x) n = Gather(s, zero) one_n = Unsqueeze(n, zeros)
        part = Slice(table, zeros, one_n, zeros) y = Add(x, part)""",
    "running sum": "y = CumSum(x, zero)",
    "first row": "f = Slice(x, zeros, ones, zeros) y = Relu(f)",
}


@pytest.mark.parametrize("name", BOUNDED)
def test_every_size_is_right_in_few_compilations(name: str) -> None:
    executable = check(opened(BOUNDED[name]), [{"n": n} for n in SIZES])
    assert executable.ranges.why_not == "" and [v.key for v in executable.variants] == [(1,)]
    assert {v.largest for v in executable.ranges} <= {(8,), (32,), (128,)}


TWO = {
    "rows of several sentences": ("r = Reshape(x, rows) h = MatMul(r, w) y = Relu(h)", "float[m, n, 6] x"),
    "mean of each sentence": ("y = ReduceMean<axes = [1]>(x)", "float[m, n, 6] x"),
    "mean of each image": ("y = ReduceMean<axes = [2, 3]>(x)", "float[m, 6, 7, n] x"),
    "heads": (
        """h = Reshape(x, heads) q = Transpose<perm = [0, 2, 1, 3]>(h) k = Transpose<perm = [0, 2, 3, 1]>(h) s = MatMul(q, k)
        p = Softmax<axis = -1>(s) o = MatMul(p, q) t = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(t, flat)""",
        "float[m, n, 6] x",
    ),
    "a product of two": ("y = MatMul(x, z)", "float[n, 6] x, float[6, m] z"),
    "a convolution": (
        "c = Conv<pads = [1, 1, 1, 1]>(x, filter) r = Relu(c) y = ReduceMean<axes = [2, 3]>(r)",
        "float[m, 3, 9, 9] x",
    ),
}


@pytest.mark.parametrize("name", TWO)
def test_several_open_dimensions(name: str) -> None:
    model = opened(*TWO[name])
    sizes = [(1, 1), (1, 9), (2, 3), (3, 8), (4, 7), (5, 32), (7, 17), (8, 31), (9, 2)]
    executable = check(model, [{d: dict(zip(("m", "n"), pair))[d] for d in model.symbols} for pair in sizes])
    assert executable.ranges.why_not == "" and len(executable.variants) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", BOUNDED)
def test_every_size_to_130_and_primes(name: str) -> None:
    check(opened(BOUNDED[name]), [{"n": n} for n in (*range(1, 131), 131, 149, 197, 251, 257, 331, 383, 449, 499)])


#: what has other kernels at other sizes: each size is compiled by itself, as ever
REFUSED = {
    "joined to itself": "y = Concat<axis = 0>(x, x)",
    "last row first": "y = Slice(x, minus, far, zeros, minus)",
    "last row": "l = Gather<axis = 0>(x, minus_one) y = Relu(l)",
    "every other row": "y = Slice(x, zeros, far_end, zeros, twos)",
    "padded": "y = Pad(x, pad)",
    "place of the largest": "a = ArgMax<axis = 0, keepdims = 0>(x) y = Cast<to = 1>(a)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_another_network_at_another_size_is_right_all_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WEIGHTS, "minus_one", np.array([-1], np.int64))
    monkeypatch.setitem(WEIGHTS, "far_end", np.array([1 << 40], np.int64))
    executable = check(opened(REFUSED[name]), [{"n": n} for n in (1, 2, 5, 12)])
    assert len(executable.ranges) == 0 and executable.ranges.why_not


def random_body(seed: int) -> str:
    """A chain of operators that keep the shape [n, 6]."""
    generator = np.random.default_rng(seed)
    lines, last = [], "x"
    for number in range(int(generator.integers(2, 6))):
        axis, h, t = int(generator.integers(2)), f"h{number}", f"t{number}"
        kind = ("ReduceMean", "ReduceMax", "ReduceMin")[int(generator.integers(3))]
        lines.append(
            (
                f"{h} = Tanh({last})",
                f"{t} = MatMul({last}, w) {h} = Add({t}, scale)",
                f"{h} = Softmax<axis = {axis}>({last})",
                f"{t} = {kind}<axes = [{axis}]>({last}) {h} = Sub({last}, {t})",
                f"{t} = Transpose<perm = [1, 0]>({last}) {t}a = MatMul({t}, {last}) {h} = MatMul({last}, {t}a)",
                f"{t} = Transpose<perm = [1, 0]>({last}) {t}a = MatMul({last}, {t}) {t}b = Tanh({t}a) {h} = MatMul({t}b, {last})",
                f"{h} = LayerNormalization<axis = -1>({last}, scale)",
            )[int(generator.integers(7))]
        )
        last = h
    return " ".join([*lines, f"y = Tanh({last})"])


@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = sorted({int(n) for n in generator.integers(1, 33, 8)})
    executable = check(opened(random_body(seed)), [{"n": n} for n in sizes])
    assert executable.ranges.why_not == ""


def test_threads_call_with_different_sizes_at_once() -> None:
    model = opened(BOUNDED["attention"])
    executable = ts.compile(model)
    wanted = {n: model.at(n=n).evaluate(drawn(model, {"n": n}))["y"] for n in range(9, 33)}
    wrong: list[int] = []

    def call(first: int) -> None:
        for n in (*range(first, 33, 4), *range(first, 33, 4)):
            if not np.allclose(executable(*drawn(model, {"n": n})), wanted[n], rtol=1e-4, atol=1e-5):
                wrong.append(n)

    threads = [threading.Thread(target=call, args=(9 + k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and len(executable.ranges) == 1


def test_results_in_memory_of_ones_own_and_by_name() -> None:
    model = opened(BOUNDED["rows times a weight"])
    executable = ts.compile(model)
    given = drawn(model, {"n": 11})
    wanted = model.at(n=11).evaluate(given)["y"]
    out = np.empty((11, 6), np.float32)
    assert executable(*given, out=out) is out
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    np.testing.assert_allclose(executable(x=given[0][:, ::-1][:, ::-1]), wanted, atol=1e-5)
    np.testing.assert_allclose(executable.run({"x": given[0]})["y"], wanted, atol=1e-5)
    with pytest.raises(UserError, match="must have shape"):
        executable(np.zeros((11, 7), np.float32))
    with pytest.raises(UserError, match="out"):
        executable(*given, out=np.empty((12, 6), np.float32))
    assert executable(np.zeros((0, 6), np.float32)).shape == (0, 6)


def test_memory_has_a_bound() -> None:
    executable = ts.compile(opened(BOUNDED["activation"]), memory=8000)
    for n in (5, 20, 100, 20, 5, 400):
        executable(np.zeros((n, 6), np.float32))
    assert len(executable.ranges) < 4
    assert sum(v.memory.arena for v in executable.ranges) <= 8000 or len(executable.ranges) == 1
    with pytest.raises(UserError, match="memory is 0"):
        ts.compile(opened(BOUNDED["activation"]), memory=0)


def test_a_larger_variant_serves_smaller_sizes() -> None:
    executable = ts.compile(opened(BOUNDED["softmax of a column"]))
    x = DRAWN.uniform(-1, 1, (20, 6)).astype(np.float32)
    executable(np.zeros((500, 6), np.float32))
    np.testing.assert_allclose(executable(x).sum(axis=0), np.ones(6), atol=1e-5)
    assert [v.largest for v in executable.ranges] == [(512,)]
    executable(x[:2])  # for which there are far smaller tiles
    assert [v.largest for v in executable.ranges] == [(8,), (512,)]


def test_tables_that_end_before_the_range_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WEIGHTS, "table", WEIGHTS["table"][:70])
    executable = check(opened(BOUNDED["a table of positions"]), [{"n": n} for n in (40, 65, 70)])
    assert [v.largest for v in executable.ranges] in ([(64,), (65,), (70,)], [(64,), (70,)])


def test_far_samples_find_what_near_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WEIGHTS, "sixteen", np.array([16], np.int64))
    executable = check(opened("f = Slice(x, zeros, sixteen, zeros) y = Relu(f)"), [{"n": n} for n in (32, 31, 10)])
    assert "not bounded" in executable.ranges.why_not


# -- forms ---------------------------------------------------------------------------------------------------------------

BATCH, LENGTH = Digit(4, (0, 1, 0)), Digit(8, (0, 0, 1))


def test_what_is_there_of_an_axis_ends_behind_its_last_element() -> None:
    digits = (BATCH, LENGTH, *fixed(3))
    places = np.arange(4 * 8 * 3).reshape(4, 8, 3)
    for batch in range(1, 5):
        for length in range(1, 9):
            there = places[:batch, :length]
            assert value(end(digits), (batch, length)) == there.max() + 1
            assert size(digits, (batch, length)) == there.size
    assert is_plain((BATCH, *fixed(3))) and not is_plain(digits)


def test_axes_of_other_shapes_have_the_same_digits() -> None:
    digits = (BATCH, LENGTH, *fixed(6))
    assert regrouped(digits, (32, 6)) == ((BATCH, LENGTH), fixed(6))
    assert regrouped(digits, (4, 8, 2, 3)) == ((BATCH,), (LENGTH,), fixed(2), fixed(3))
    assert regrouped(digits, (4, 4, 12)) is None
    assert regrouped(digits, (4, 8, 5)) is None


def test_numbers_that_follow_from_sizes() -> None:
    assert size_number("f32", (8, 4), 1 / 32, [((7, 4), 1 / 28), ((8, 3), 1 / 24)]) == SizeNumber("f32", 1.0, (-1, -1))
    assert size_number("f32", (8, 4), 24.0, [((7, 4), 21.0), ((8, 3), 24.0)]) == SizeNumber("f32", 3.0, (1, 0))
    assert size_number("f32", (8,), 8.0**0.5, [((7,), 7.0**0.5)]) is None


def test_ranges_end_far_apart() -> None:
    assert [top(n) for n in (1, 2, 8, 9, 32, 33, 129, 513)] == [1, 8, 8, 32, 32, 128, 512, 2048]


def test_the_counts_of_a_reduction_must_be_known() -> None:
    from tensorsmith.lang.counts import Counted
    from tensorsmith.lang.define import compute, placeholder, reduce_axis, workload

    x, k = placeholder((4, 8), name="x"), reduce_axis(4, name="k")
    both = compute((4,), lambda i: ts.sum(x[i, k * 2], axis=k), name="y")
    with pytest.raises(Refusal, match="reduces over k"):
        Counted({"x": ((BATCH,), (LENGTH,))}).axes(workload([x, both]))


# -- files ---------------------------------------------------------------------------------------------------------------


def test_a_file_serves_all_sizes_of_its_ranges(tmp_path: Path) -> None:
    model = opened(*TWO["mean of each sentence"])
    executable = check(model, [{"m": 2, "n": 30}])
    executable.save(tmp_path / "model.tsm")
    loaded = ts.load_executable(tmp_path / "model.tsm")
    again = pickle.loads(pickle.dumps(executable))
    for sizes in ({"m": 8, "n": 32}, {"m": 1, "n": 1}, {"m": 3, "n": 17}):
        given = drawn(model, sizes)
        for made in (loaded, again, copy.deepcopy(executable)):
            np.testing.assert_allclose(made(*given), model.at(**sizes).evaluate(given)["y"], atol=1e-5)
    with pytest.raises(UserError, match="it came from a file, which has up to m=8, n=32"):
        loaded(np.zeros((9, 3, 6), np.float32))


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        (("counts", 0), [0, 1]),
        (("counts", 0), [0, 1, 1 << 60]),
        (("outputs", 0, 0, 0), [9, [0, 1, 0]]),
        (("outputs", 0), []),
        (("numbers", 0), ["f32", 1.0, [0, 2]]),
        (("numbers", 0), ["f33", 1.0, [0, -1]]),
        (("numbers", 0), ["f32", "1", [0, -1]]),
    ],
)
def test_bounds_that_cannot_be_are_refused(path: tuple[str | int, ...], changed: object) -> None:
    (variant,) = check(opened(*TWO["mean of each sentence"]), [{"m": 2, "n": 30}]).ranges
    form = variant.bounds.to_json()
    outputs = variant.executable.outputs
    assert Bounds.from_json(form, variant.largest, outputs) == variant.bounds
    part: Any = form
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = changed
    with pytest.raises(InternalError, match="bounds of a variant"):
        Bounds.from_json(form, variant.largest, outputs)
