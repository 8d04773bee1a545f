"""Executables of open dimensions: the right variant for every call, compiled once, kept for a while, saved and loaded."""

from __future__ import annotations

import copy
import json
import pickle
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.file import _PROLOGUE, as_bytes, from_bytes, read, variants_from_bytes
from tensorsmith.runtime.load import load
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.runtime.variants.symbols import Sizes

W = np.random.default_rng(0).uniform(-1, 1, (16, 24)).astype(np.float32)


def dense(body: str = "h = MatMul(x, w) y = Relu(h)", inputs: str = "float[batch, 16] x") -> onnx.ModelProto:
    proto: onnx.ModelProto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> dense ({inputs}) => (float[batch, 24] y) {{ {body} }}'
    )
    proto.graph.initializer.append(numpy_helper.from_array(W, "w"))
    return proto


def model(shapes: dict[str, Any] | None = None) -> OpenModel:
    made = ts.load(dense(), shapes=shapes or {"batch": None})
    assert isinstance(made, OpenModel)
    return made


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, 16)).astype(np.float32)


def wanted(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ W, 0.0)


def sizes(executable: OpenExecutable) -> list[int]:
    return [v.sizes["batch"] for v in executable.variants]


class Slow:
    """A maker that waits until it is told to go on; counts what it makes."""

    def __init__(self, maker: Any) -> None:
        self.maker, self.made, self.go = maker, list[Sizes](), threading.Event()

    def make(self, sizes: Sizes) -> Executable:
        self.made.append(sizes)
        assert self.go.wait(30)
        return self.maker.make(sizes)  # type: ignore[no-any-return]

    def outputs_within(self, small: Sizes, large: Sizes) -> Any:
        return self.maker.outputs_within(small, large)


# -- calls ---------------------------------------------------------------------------------------------------------------


def test_any_size_is_right_and_compiled_once() -> None:
    executable = ts.compile(model(), ranges=False)
    for n in (3, 1, 7, 3, 1):
        np.testing.assert_allclose(executable(rows(n)), wanted(rows(n)), atol=1e-5)
    assert sizes(executable) == [1, 3, 7]
    assert all(v.seconds is not None and v.seconds > 0 for v in executable.variants)


def test_ways_to_call() -> None:
    executable = ts.compile(model(), ranges=False)
    x, out = rows(5), np.empty((5, 24), np.float32)
    assert executable(x, out=out) is out and np.allclose(out, wanted(x), atol=1e-5)
    np.testing.assert_array_equal(executable(x=x), out)
    np.testing.assert_array_equal(executable.run({"x": x})["y"], out)
    np.testing.assert_array_equal(executable(np.asfortranarray(x)), out)
    np.testing.assert_array_equal(executable.at(batch=5)(x), out)


def test_the_least_recently_used_leaves_and_named_ones_stay() -> None:
    executable = ts.compile(model({"batch": [2]}), keep=2, ranges=False)
    for n in (3, 4, 3, 5):  # 4 was used before 3
        executable(rows(n))
    assert sizes(executable) == [2, 3, 5]
    np.testing.assert_allclose(executable(rows(4)), wanted(rows(4)), atol=1e-5)
    assert sizes(executable) == [2, 4, 5]


def test_named_sizes_are_compiled_at_once() -> None:
    assert sizes(ts.compile(model({"batch": [8, 1, 8]}))) == [1, 8]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((rows(4)[0],), r"x must have 2 dimensions \[batch, 16\], \(16,\) given"),
        ((rows(4)[:, :15],), r"x must have shape \[batch, 16\], \(4, 15\) given"),
        ((rows(4).astype(np.float64),), "x must be f32, f64 given"),
        ((rows(4), rows(4)), r"takes 1 input \(x\), 2 given"),
        (("text",), "x is a str; give a NumPy array"),
    ],
)
def test_mistakes_are_noticed_before_anything_is_compiled(args: tuple[Any, ...], message: str) -> None:
    executable = ts.compile(model(), ranges=False)
    with pytest.raises(UserError, match=message):
        executable(*args)
    assert not executable.variants


def test_two_inputs_must_agree() -> None:
    made = ts.load(dense("a = Add(x, z) y = MatMul(a, w)", "float[batch, 16] x, float[batch, 16] z"), shapes={"batch": None})
    executable = ts.compile(made, ranges=False)
    with pytest.raises(UserError, match="batch is 4 in x and 5 in z; it must be one size"):
        executable(rows(4), rows(5))
    np.testing.assert_allclose(executable(rows(4), rows(4)), 2 * rows(4) @ W, atol=1e-5)
    with pytest.raises(UserError, match="batch is 4 in x and 5 in z"):  # where there is a variant of 4, too
        executable(rows(4), rows(5))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: ts.compile(model()).at(length=3), "there is no open dimension 'length'; there is batch"),
        (lambda: ts.compile(model()).at(), "the size of batch is missing"),
        (lambda: model().at(batch=-3), "batch is -3; an open dimension has sizes from 0 on"),
        (lambda: model().at(batch=2.5), "the size of batch is 2.5; give a whole number"),
        (lambda: ts.compile(model(), keep=0), "keep is 0; give how many"),
        (
            lambda: ts.compile(model().at(batch=1), keep=3),
            "ranges and memory are for models with open dimensions",
        ),
        (lambda: model({"batch": range(1, 66)}), "65 combinations of sizes are named; name at most 64"),
        (lambda: ts.tune(model(), trials=1), r'tune needs sizes to tune for: name some, as in shapes={"batch": \[1, 8, 32\]}'),
        (lambda: ts.tune([model(), model()]), r"has dense in it, of open sizes; tune it alone, or give model.at\(batch=8\)"),
        (lambda: ts.compile(model(), check_indices=True), "check_indices is for definitions"),
        (lambda: ts.compile(model().at(batch=1), check_indices=True), "check_indices is for definitions"),
        (lambda: ts.compile(model()).export("x"), r"a C library has fixed sizes: use exe.at\(batch=8\).export\(folder\)"),
        (lambda: pickle.dumps(model()), r"dense makes a network for any size, so it cannot be pickled; .* model.at\(batch=8\)"),
        (lambda: pickle.dumps(ts.compile(model())), "dense has no variant to pickle yet"),
        (lambda: ts.compile(model()).save("x.tsm"), "dense has no variant to save yet"),
    ],
)
def test_mistakes(use: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        use()


# -- threads -------------------------------------------------------------------------------------------------------------


def test_threads_that_want_the_same_size_compile_it_once() -> None:
    executable = ts.compile(model(), ranges=False)
    slow = executable.maker = Slow(executable.maker)
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(executable(rows(6)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    slow.go.set()
    for thread in threads:
        thread.join(30)
    assert slow.made == [(6,)] and len(results) == 4
    for result in results:
        np.testing.assert_allclose(result, wanted(rows(6)), atol=1e-5)


def test_what_goes_wrong_reaches_everybody_who_waits_and_is_tried_again() -> None:
    executable = ts.compile(model(), ranges=False)
    good = executable.maker

    class Broken:
        def make(self, sizes: Sizes) -> Executable:
            raise UserError("no luck")

    executable.maker = Broken()  # type: ignore[assignment]
    with pytest.raises(UserError, match="no luck"):
        executable(rows(2))
    executable.maker = good
    np.testing.assert_allclose(executable(rows(2)), wanted(rows(2)), atol=1e-5)


# -- in the background -----------------------------------------------------------------------------------------------------


def test_a_larger_variant_serves_until_the_right_one_is_there() -> None:
    executable = ts.compile(model({"batch": [4, 8, 32]}), background=True, ranges=False)
    slow = executable.maker = Slow(executable.maker)
    runs: list[int] = []
    for v in executable.variants:
        v.executable._call_plainly = Counted(v.executable._call_plainly, runs, v.sizes["batch"])
    for seed in range(3):
        np.testing.assert_allclose(executable(rows(5, seed)), wanted(rows(5, seed)), atol=1e-5)
    out = np.empty((5, 24), np.float32)
    assert executable(rows(5), out=out) is out and np.allclose(out, wanted(rows(5)), atol=1e-5)
    assert runs == [8, 8, 8, 8] and sizes(executable) == [4, 8, 32]
    slow.go.set()
    executable.wait()
    assert slow.made == [(5,)] and sizes(executable) == [4, 5, 8, 32]
    np.testing.assert_allclose(executable(rows(5)), wanted(rows(5)), atol=1e-5)
    assert len(runs) == 4


class Counted:
    """A function that notes its calls."""

    def __init__(self, function: Any, calls: list[int], name: int) -> None:
        self.function, self.calls, self.name = function, calls, name

    def __call__(self, *args: Any) -> Any:
        self.calls.append(self.name)
        return self.function(*args)


def test_a_call_waits_where_nothing_larger_is_there_or_rows_are_mixed() -> None:
    executable = ts.compile(model({"batch": [4]}), background=True, ranges=False)
    np.testing.assert_allclose(executable(rows(9)), wanted(rows(9)), atol=1e-5)
    assert sizes(executable) == [4, 9]
    mixing = ts.load(dense("s = Softmax<axis = 0>(x) y = MatMul(s, w)"), shapes={"batch": [8]})
    executable = ts.compile(mixing, background=True, ranges=False)
    x = rows(3)
    e = np.exp(x - x.max(0))
    np.testing.assert_allclose(executable(x), (e / e.sum(0)) @ W, atol=1e-5)
    assert sizes(executable) == [3, 8]


def test_out_is_checked_where_a_larger_variant_serves() -> None:
    executable = ts.compile(model({"batch": [8]}), background=True, ranges=False)
    slow = executable.maker = Slow(executable.maker)
    for out, message in (
        (np.empty((8, 24), np.float32), "must have shape"),
        (np.empty((5, 24), np.float64), "must be f32"),
        ([], "out must have an array for each output"),
    ):
        with pytest.raises(UserError, match=message):
            executable(rows(5), out=out)
    slow.go.set()
    executable.wait()


def test_what_fails_in_the_background_is_said_by_the_next_call() -> None:
    executable = ts.compile(model({"batch": [8]}), background=True, ranges=False)
    maker = executable.maker

    class Broken(Slow):
        def make(self, sizes: Sizes) -> Executable:
            raise UserError("no luck")

    executable.maker = Broken(maker)
    np.testing.assert_allclose(executable(rows(5)), wanted(rows(5)), atol=1e-5)
    executable.wait()
    with pytest.raises(UserError, match="no luck"):
        executable(rows(5))
    executable.maker = maker
    executable(rows(5))
    executable.wait()
    assert sizes(executable) == [5, 8]


# -- memory ----------------------------------------------------------------------------------------------------------------


def test_weights_that_are_packed_alike_are_there_once() -> None:
    executable = ts.compile(model({"batch": [64, 128]}), keep=1, ranges=False)
    one, other = (v.executable.network.constants for v in executable.variants)
    assert len(one) == len(other) == 1 and one[0] is other[0]
    table = executable.variants
    assert executable.memory.constants == table.constant_bytes == one[0].nbytes == table.shared_bytes(table[0])
    text = str(table)
    assert text.splitlines()[0].split() == ["batch", "weights", "of", "them", "shared", "arena", "scratch", "compiled", "in"]
    assert len(text.splitlines()) == 4 and "2 variants" in text
    weights = f"{one[0].nbytes / 1024:.1f} KiB"
    assert repr(table) == f"<Variants batch=64; batch=128: 2 variants, {weights} of weights together>"
    assert repr(executable) == "<OpenExecutable dense(x: f32[batch, 16]): 2 variants batch=64; batch=128>"
    assert repr(ts.compile(model())) == "<OpenExecutable dense(x: f32[batch, 16]): no variant yet>"


# -- files -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("variants") / "dense.tsm"
    ts.compile(model({"batch": [1, 8, 32]})).save(path)
    return path


def test_all_variants_are_in_one_file(saved: Path, tmp_path: Path) -> None:
    loaded = ts.load_executable(saved)
    assert isinstance(loaded, OpenExecutable) and sizes(loaded) == [1, 8, 32]
    for n in (8, 1, 32):
        np.testing.assert_allclose(loaded(rows(n)), wanted(rows(n)), atol=1e-5)
    assert "loaded" in str(loaded.variants)
    loaded.save(tmp_path / "again.tsm")
    again = ts.load_executable(tmp_path / "again.tsm")
    assert isinstance(again, OpenExecutable) and sizes(again) == [1, 8, 32]


def test_a_pickle_is_the_file_that_is_saved(saved: Path) -> None:
    executable = ts.compile(model({"batch": [1, 8, 32]}), ranges=False)
    again = pickle.loads(pickle.dumps(executable))
    assert type(again) is OpenExecutable and repr(again) == repr(executable) and sizes(again) == [1, 8, 32]
    np.testing.assert_array_equal(again(rows(8)), executable(rows(8)))
    data = saved.read_bytes()
    assert executable.__reduce__()[1] == (data,) == again.__reduce__()[1]
    with pytest.raises(UserError, match="dense has no variant for batch=5"):
        again(rows(5))
    broken = bytearray(data)
    broken[-100] ^= 1
    with pytest.raises(UserError, match="the pickled executable is damaged: its checksum is wrong"):
        variants_from_bytes(bytes(broken))
    with pytest.raises(UserError, match="the pickled executable is damaged: it has variants"):
        from_bytes(data)
    with pytest.raises(UserError, match="the pickled executable is damaged: it has no variants"):
        variants_from_bytes(as_bytes(executable.at(batch=8).network))


def test_copies_compile_more_and_share_what_the_variants_share() -> None:
    executable = ts.compile(model({"batch": [64, 128]}), keep=3, ranges=False)
    shallow, deep = copy.copy(executable), copy.deepcopy(executable)
    for copied in (shallow, deep):
        assert sizes(copied) == [64, 128] and copied.keep == 3 and all(v.kept for v in copied.variants)
        np.testing.assert_allclose(copied(rows(5)), wanted(rows(5)), atol=1e-5)
        assert sizes(copied) == [5, 64, 128]
    assert sizes(executable) == [64, 128]
    assert shallow.at(batch=64).network.constants[0] is executable.at(batch=64).network.constants[0]
    one, other = (deep.at(batch=n).network.constants[0] for n in (64, 128))
    assert one is other and not np.shares_memory(one, executable.at(batch=64).network.constants[0])


def test_copies_of_models_make_networks_too() -> None:
    whole = model({"batch": [1, 8]})
    for copied in (copy.copy(whole), copy.deepcopy(whole)):
        assert type(copied) is OpenModel and copied.named == whole.named and copied.at(batch=3).name == "dense[batch=3]"
    assert whole.with_sizes(batch=[2]).named == ((2,),) and whole.named == ((1,), (8,))


def test_sizes_that_a_file_has_not(saved: Path) -> None:
    loaded = ts.load_executable(saved)
    message = "dense has no variant for batch=5: it came from a file, which has batch=1; batch=8; batch=32; compile the model"
    with pytest.raises(UserError, match=message):
        loaded(rows(5))
    with pytest.raises(UserError, match="has 3 variants; a file with one network is needed"):
        load(saved)


def test_what_variants_share_is_in_the_file_once(tmp_path: Path) -> None:
    executable = ts.compile(model({"batch": [64, 128]}), ranges=False)
    executable.save(tmp_path / "both.tsm")
    header = header_of(tmp_path / "both.tsm")
    networks = [v["network"] for v in header["variants"]]
    assert networks[0]["constants"] == networks[1]["constants"]
    assert networks[0]["driver"]["code"] == networks[1]["driver"]["code"]
    assert networks[0]["kernels"][0]["module"]["code"] != networks[1]["kernels"][0]["module"]["code"]


def header_of(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    size = _PROLOGUE.unpack_from(content)[3]
    return json.loads(content[_PROLOGUE.size : _PROLOGUE.size + size])  # type: ignore[no-any-return]


def test_one_network_is_written_as_before_and_variants_are_another_format(saved: Path, tmp_path: Path) -> None:
    """Who reads format 4 alone says so of a file of variants."""
    ts.compile(model().at(batch=2)).save(tmp_path / "one.tsm")
    assert [struct.unpack_from("<I", p.read_bytes(), 8)[0] for p in (tmp_path / "one.tsm", saved)] == [4, 5]
    assert isinstance(ts.load_executable(tmp_path / "one.tsm"), Executable)


def test_every_change_of_a_file_is_noticed(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    places = [*range(0, 96, 3), *np.random.default_rng(0).integers(96, len(content), 60).tolist()]
    for n, at in enumerate(places):
        changed = bytearray(content)
        changed[at] ^= 1 + n % 255
        path = tmp_path / f"{n}.tsm"
        path.write_bytes(bytes(changed))
        with pytest.raises(UserError):
            ts.load_executable(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["variants"].clear(), "1 open dimensions and 0 variants"),
        (lambda h: h["variants"][0].update(sizes=[2]), "has other inputs"),
        (lambda h: h["variants"][0].update(sizes=[1, 1]), r"the sizes of a variant are \[1, 1\]"),
        (lambda h: h["variants"][1].update(h["variants"][0]), r"the sizes of a variant are \[1\]"),
        (lambda h: h["inputs"][0][1].__setitem__(0, ""), "has no name"),
        (lambda h: h["inputs"][0][1].__setitem__(0, 1), "0 open dimensions"),
        (lambda h: h["inputs"][0].__setitem__(2, "f31"), "the type of x is 'f31'"),
        (lambda h: h["variants"][0]["network"].pop("kernels"), "kernels is None"),
        (lambda h: h.pop("variants"), "variants is None"),
    ],
)
def test_what_a_header_cannot_say(saved: Path, tmp_path: Path, change: Any, message: str) -> None:
    import hashlib

    content = saved.read_bytes()
    magic, version, zero, size, body, _, body_hash = _PROLOGUE.unpack_from(content)
    header = header_of(saved)
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(_PROLOGUE.size + len(text)) % 64)
    prologue = _PROLOGUE.pack(magic, version, zero, len(text), body, hashlib.sha256(text).digest(), body_hash)
    path = tmp_path / "changed.tsm"
    path.write_bytes(prologue + text + content[_PROLOGUE.size + size :])
    with pytest.raises(UserError, match=message):
        read(path)


def test_profile_and_benchmark_are_of_the_variant_of_their_inputs() -> None:
    executable = ts.compile(model({"batch": [2]}), ranges=False)
    x = np.ones((2, 16), np.float32)
    (only,) = executable.variants
    found = executable.profile(x, rounds=1)
    assert [s.name for s in found.steps] == [s.name for s in only.executable.profile(rounds=1).steps]
    assert executable.profile(rounds=1, **{executable.inputs[0].name: np.ones((3, 16), np.float32)}).steps
    assert sizes(executable) == [2, 3]  # what was not there was compiled
    assert executable.benchmark(x, min_seconds=0.0, rounds=1).best > 0.0
    for asked in ("profile", "benchmark"):
        with pytest.raises(UserError, match=rf"open dimensions: give {asked} inputs, or use exe.at\(batch=8\).{asked}\(\)"):
            getattr(executable, asked)()
