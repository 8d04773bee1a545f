"""Operators that draw random numbers: the generator, the distributions, and what is the same from call to call and what is not."""

from __future__ import annotations

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from tests.frontends.onnx_nodes import random
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.lang.define import compute, placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops.random import philox

#: from Random123's table of known answers (kat_vectors): the two words that count, the key, and what philox2x32-10 gives
KNOWN = [
    ((0x00000000, 0x00000000), 0x00000000, (0xFF1DAE59, 0x6CD10DF2)),
    ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
    ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
]


@pytest.mark.parametrize(("counters", "key", "words"), KNOWN)
def test_the_generator_gives_its_known_answers(counters: Any, key: int, words: Any) -> None:
    low, high = (placeholder((1,), "u32", name=name) for name in ("low", "high"))
    first = compute((1,), lambda i: philox(key, low[i], high[i])[0], name="first")
    second = compute((1,), lambda i: philox(key, low[i], high[i])[1], name="second")
    given = {name: np.array([n], np.uint32) for name, n in zip(("low", "high"), counters)}
    by_code = ts.compile([low, high, first, second])(*given.values())
    by_evaluator = evaluate(workload([low, high, first, second]), given)
    assert tuple(int(w[0]) for w in by_code) == words
    assert tuple(int(by_evaluator[name][0]) for name in ("first", "second")) == words


def model(nodes: str, outputs: str = "float[n] y", inputs: str = "float[64, 700] x", opset: int = 15) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {nodes} }}')


X = random(64, 700)
DRAWS = {
    "normal": ("y = RandomNormalLike<mean = 2.0, scale = 3.0>(x)", lambda v: _normal_cdf((v - 2) / 3), 2.0, 9.0),
    "uniform": ("y = RandomUniformLike<low = -1.0, high = 3.0>(x)", lambda v: (v + 1) / 4, 1.0, 16 / 12),
    "normal of a shape": ("y = RandomNormal<shape = [64, 700], dtype = 11>()", lambda v: _normal_cdf(v), 0.0, 1.0),
    "uniform of a shape": ("y = RandomUniform<shape = [64, 700]>()", lambda v: v, 0.5, 1 / 12),
}


def _normal_cdf(v: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.vectorize(math.erf)(v / math.sqrt(2)))


@pytest.mark.parametrize("name", DRAWS)
def test_the_distributions(name: str) -> None:
    """Mean and variance to four standard errors, and the greatest distance of the distribution functions (Kolmogorov, Smirnov)."""
    nodes, cdf, mean, variance = DRAWS[name]
    exe = ts.compile(ts.load(model(f"z = Identity(x) {nodes}", "float[n] y, float[n] z"), seed=7))
    found = exe(X)[0].astype(np.float64).ravel()
    count = found.size
    assert abs(found.mean() - mean) < 4 * math.sqrt(variance / count)
    assert abs(found.var() / variance - 1) < 4 * math.sqrt(2 / count)
    shares = cdf(np.sort(found))
    steps = np.arange(count + 1) / count
    distance = max(np.abs(shares - steps[:-1]).max(), np.abs(shares - steps[1:]).max())
    assert distance < 1.63 / math.sqrt(count)  # a right generator is farther off with one seed of a hundred
    pairs = found.reshape(64, 700)
    assert abs(np.corrcoef(pairs[:, :-1].ravel(), pairs[:, 1:].ravel())[0, 1]) < 4 / math.sqrt(count)
    assert abs(np.corrcoef(pairs[:-1].ravel(), pairs[1:].ravel())[0, 1]) < 4 / math.sqrt(count)


def test_bernoulli_and_multinomial() -> None:
    p = np.tile(np.array([0.0, 0.25, 0.75, 1.0], "f4"), (20000, 1))
    exe = ts.compile(ts.load(model("y = Bernoulli<dtype = 6>(x)", "int32[n] y", "float[20000, 4] x"), seed=3))
    got = exe(p)
    assert got.dtype == np.int32
    np.testing.assert_allclose(got.mean(0), p[0], atol=4 * math.sqrt(0.1875 / 20000))
    logits = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-30]], "f4")) + np.float32(3)
    drawn = ts.compile(ts.load(model("y = Multinomial<sample_size = 20000, dtype = 7>(x)", "int64[n] y", "float[2, 3] x"), seed=3))(
        logits
    )
    assert drawn.shape == (2, 20000) and drawn.dtype == np.int64
    shares = np.stack([(drawn == n).mean(1) for n in range(3)], 1)
    np.testing.assert_allclose(shares, [[0.1, 0.2, 0.7], [0.5, 0.5, 0]], atol=4 * math.sqrt(0.25 / 20000))


TWO = "a = RandomNormalLike(x) b = RandomNormalLike(x) c = RandomUniformLike(x)", "float[n] a, float[n] b, float[n] c"


def loaded(seed: int = 5) -> Any:
    return ts.load(model(*TWO, inputs="float[4, 33] x"), seed=seed)


SMALL = random(4, 33)


def test_calls_differ_and_so_do_nodes_and_seeds_and_all_of_it_comes_again() -> None:
    exe, again = ts.compile(loaded()), ts.compile(loaded())
    assert [a.name for a in exe.inputs] == ["x"]
    first, second = exe(SMALL), exe(x=SMALL)
    for one, other in zip(first, second):
        assert not np.intersect1d(one, other).size > 2
    assert not np.array_equal(first[0], first[1])
    for calls in (first, second):
        for mine, same in zip(calls, again(SMALL)):
            np.testing.assert_array_equal(mine, same)
    assert not np.array_equal(ts.compile(loaded(6))(SMALL)[0], first[0])
    assert exe.calls.number == 2
    exe.calls.restart()
    np.testing.assert_array_equal(exe(SMALL)[2], first[2])


def test_the_reference_evaluator_gives_the_same_numbers() -> None:
    found = loaded()
    exe = ts.compile(found)
    for call in range(3):
        want = found.evaluate([SMALL], call=call)
        got = exe.run({"x": SMALL})
        np.testing.assert_array_equal(got["c"], want["c"])
        for name in "ab":  # logarithm, root and cosine are rounded otherwise
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)


def test_any_number_of_threads_gives_the_same_numbers() -> None:
    found = ts.load(model("y = RandomNormalLike(x)"), seed=1)
    results = []
    for threads in (1, 2, 3):
        run = ts.compile(found).prepare(X, threads=threads)
        run.seconds(1)
        results.append(run.outputs[0].copy())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[0], ts.compile(found)(X))


def test_threads_that_call_at_once_draw_each_its_own() -> None:
    exe = ts.compile(loaded())
    with ThreadPoolExecutor(4) as pool:
        every = list(pool.map(lambda _: exe(SMALL)[2].tobytes(), range(32)))
    again = ts.compile(loaded())
    assert set(every) == {again(SMALL)[2].tobytes() for _ in range(32)} and len(set(every)) == 32


def test_files_pickles_and_copies(tmp_path: Path) -> None:
    """From a file or a pickle calls are counted from 0 on; a copy goes on where the original stands, by itself."""
    exe = ts.compile(loaded())
    first, second = exe(SMALL)[0], exe(SMALL)[0]
    exe.save(tmp_path / "m.tsm")
    for other in (ts.load_executable(tmp_path / "m.tsm"), pickle.loads(pickle.dumps(exe))):
        assert [a.name for a in other.inputs] == ["x"]
        np.testing.assert_array_equal(other(SMALL)[0], first)
        np.testing.assert_array_equal(other(SMALL)[0], second)
    for copied in (copy.copy(exe), copy.deepcopy(exe)):
        third = copied(SMALL)[0]
        assert copied.calls.number == 3 and exe.calls.number == 2
    np.testing.assert_array_equal(exe(SMALL)[0], third)


def test_open_dimensions_share_the_count(tmp_path: Path) -> None:
    proto = model("y = RandomUniformLike(x)", inputs="float[n, 5] x")
    exe = ts.compile(ts.load(proto, shapes={"n": [2, 4]}, seed=1), background=True)
    two, four, again = exe(random(2, 5)), exe(random(4, 5)), exe(random(2, 5))
    assert not np.array_equal(two, four[:2]) and not np.array_equal(two, again)
    other = ts.compile(ts.load(proto, shapes={"n": 4}, seed=1))
    other.calls.restart(1)
    np.testing.assert_array_equal(other(random(4, 5)), four)
    np.testing.assert_array_equal(exe(random(3, 5)), ts.load(proto, shapes={"n": 3}, seed=1).evaluate([random(3, 5)], call=3)["y"])
    exe.save(tmp_path / "m.tsm")
    np.testing.assert_array_equal(ts.load_executable(tmp_path / "m.tsm")(random(2, 5)), two)


def test_benchmarks_profiles_and_tuning_work() -> None:
    exe = ts.compile(loaded())
    assert exe.benchmark(min_seconds=0.001, rounds=1).best > 0
    assert exe.profile(rounds=1).steps
    assert exe.calls.number == 0


def test_a_library_for_c_takes_the_number_of_the_call(tmp_path: Path) -> None:
    ts.compile(loaded()).export(tmp_path / "c", name="voice")
    header = (tmp_path / "c" / "voice.h").read_text()
    assert "call_number" in header and "uint32_t" in header


def test_a_node_with_a_seed_of_its_own_draws_others() -> None:
    with_own = model("y = RandomUniformLike<seed = 2.0>(x)", inputs="float[4, 33] x")
    plain = model("y = RandomUniformLike(x)", inputs="float[4, 33] x")
    assert not np.array_equal(*(ts.compile(ts.load(m, seed=1))(SMALL) for m in (with_own, plain)))


def test_what_is_refused() -> None:
    with pytest.raises(UserError) as problem:
        ts.load(model("y = RandomNormalLike(x)"))
    assert "RandomNormalLike y draws at random in every call; give the model a seed, seed=0, or make its result an input" in str(
        problem.value
    )
    assert "give the model a seed, --draw-seed 0" in told(problem.value)
    for seed in (-1, 1.5, "x", True):
        with pytest.raises(UserError, match="give a whole number, 0 or more"):
            ts.load(model("y = RandomNormalLike(x)"), seed=seed)
    with pytest.raises(UserError, match="a name that means something else here"):
        proto = model("y = Relu(x)")
        proto.graph.input[0].name = proto.graph.node[0].input[0] = "tensorsmith.call_number"
        ts.load(proto)
    exe = ts.compile(loaded())
    with pytest.raises(UserError, match=r"takes 1 input \(x\), 2 given"):
        exe(SMALL, SMALL)
    with pytest.raises(UserError, match="calls have the numbers"):
        exe.calls.restart(-1)


def test_the_command_line(tmp_path: Path) -> None:
    onnx.save(model(*TWO, inputs="float[4, 33] x"), tmp_path / "m.onnx")

    def given(*more: str) -> Any:
        return CliRunner().invoke(app, ["run", str(tmp_path / "m.onnx"), *more])

    first = given("--draw-seed", "3")
    assert first.exit_code == 0, first.output
    assert first.output == given("--draw-seed", "3").output != given("--draw-seed", "4").output
    assert given().exit_code != 0
