"""Executables in files: what was saved runs again, elsewhere, and whatever is wrong with a file is said."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.networks import compiled, perceptron, random

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.runtime import driver, pool
from tensorsmith.runtime.file import _PROLOGUE, MAGIC
from tensorsmith.targets.target import native

NETWORK = compiled(perceptron())
X = random(4, 24)
WANTED = NETWORK(X)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("executables") / "perceptron.tsm"
    NETWORK.save(path)
    return path


def test_round_trip(saved):
    loaded = ts.load_executable(saved)
    assert all(np.array_equal(a, b) for a, b in zip(loaded(X), WANTED))
    assert repr(loaded) == repr(NETWORK) and loaded.memory == NETWORK.memory
    assert [k.name for k in loaded.network.kernels] == [k.name for k in NETWORK.network.kernels]
    assert loaded.network.steps == NETWORK.network.steps
    assert {row.name for row in loaded.profile(rounds=1).kernels} == {row.name for row in NETWORK.profile(rounds=1).kernels}
    with pytest.raises(UserError, match="loaded as machine code"):
        _ = loaded.assembly


def test_a_loaded_executable_can_be_saved_again(saved, tmp_path):
    ts.load_executable(saved).save(tmp_path / "again.tsm")
    assert (tmp_path / "again.tsm").read_bytes() == saved.read_bytes()
    ts.load_executable(tmp_path / "again.tsm").save(tmp_path / "again.tsm")  # over the file that it runs from
    assert np.array_equal(ts.load_executable(tmp_path / "again.tsm")(X)[0], WANTED[0])
    assert [p.name for p in tmp_path.iterdir()] == ["again.tsm"]


def test_constants_are_aligned(saved):
    assert all(array.ctypes.data % 64 == 0 for array in ts.load_executable(saved).network.constants)


def test_a_single_kernel(tmp_path):
    a, b = ts.placeholder((20, 30), name="A"), ts.placeholder((30, 40), name="B", constant=True)
    k = ts.reduce_axis(30, name="k")
    kernel = ts.compile([a, b, ts.compute((20, 40), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
    with pytest.raises(UserError, match=r"B of C must be bound before it can be saved: kernel.bind\(B=...\)"):
        kernel.save(tmp_path / "kernel.tsm")
    x, y = random(20, 30), random(30, 40)
    bound = kernel.bind(B=y)
    bound.save(tmp_path / "kernel.tsm")
    assert np.array_equal(ts.load_executable(tmp_path / "kernel.tsm")(A=x), bound(x))


#: What only making an executable needs. `import tensorsmith` itself brings the light parts of the compiler.
MAKERS = ("lightgbm", "onnx", "torch", "sklearn", "scipy", "pandas", "rich")
PARTS = ("frontends.onnx", "learn", "measure", "search.policies", "tuning.tasks.task", "tuning.run")
MAKERS += tuple(f"tensorsmith.{part}" for part in PARTS)

#: The beginning of a program in which nothing can be compiled, nor what makes executables be imported.
NO_COMPILER = f"""
import sys
MAKERS = {MAKERS!r}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == maker or name.startswith(maker + ".") for maker in MAKERS):
            raise ImportError(name)
sys.meta_path.insert(0, Blocker())
import llvmlite.binding as llvm
def refuse(*given, **named):
    raise AssertionError("LLVM was asked to compile")
llvm.parse_assembly = llvm.parse_bitcode = llvm.create_pass_builder = llvm.create_new_module_pass_manager = refuse
llvm.Target.create_target_machine = llvm.TargetMachine.emit_object = llvm.TargetMachine.emit_assembly = refuse
import numpy as np
import tensorsmith as ts
"""


def run_without_compiler(script: str) -> None:
    end = "\nassert not [name for name in sys.modules if name.startswith(MAKERS)]\n"
    done = subprocess.run(
        [sys.executable, "-c", NO_COMPILER + script + end], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_loading_and_running_need_no_compiler(saved, tmp_path):
    np.savez(tmp_path / "data.npz", x=X, y=WANTED[0])
    run_without_compiler(f"""
data = np.load({str(tmp_path / "data.npz")!r})
executable = ts.load_executable({str(saved)!r})
from tensorsmith.runtime.pool import with_threads
for threads in (None, 1, 3):
    with with_threads(threads):
        assert np.array_equal(executable(data["x"])[0], data["y"])
executable.benchmark(data["x"], min_seconds=0.001)
assert len(executable.profile(rounds=1).steps) == len(executable.network.steps)
executable.save({str(tmp_path / "again.tsm")!r})
""")
    assert (tmp_path / "again.tsm").read_bytes() == saved.read_bytes()


def test_the_blocked_compiler_is_the_one_that_compiles():
    """The test above means something: without a file, the same program fails."""
    with pytest.raises(AssertionError, match="LLVM was asked to compile"):
        run_without_compiler("from tensorsmith.runtime import pool\npool.shared()")


def test_loaded_executables_share_the_pool_of_the_process(saved):
    run_without_compiler(f"""
from tensorsmith.runtime import driver, pool
first, second = (ts.load_executable({str(saved)!r}) for _ in range(2))
assert driver.process_driver() is first._running.driver is not second._running.driver
x = np.zeros((4, 24), np.float32)
first(x), second(x)
assert len(pool._pools) == 2 and len(set(pool._pools.values())) == 1  # under its number of threads, and as the default
assert pool.shared()._code is first._running.driver
""")
    loaded = ts.load_executable(saved)  # here there was one before
    assert driver.process_driver() is not loaded._running.driver
    assert pool.shared()._code is driver.process_driver()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_loaded_executable_works_after_a_fork(saved):
    run_without_compiler(f"""
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
executable = ts.load_executable({str(saved)!r})
x = np.ones((4, 24), np.float32)
def forked(before):
    child = os.fork()
    if child == 0:
        again = ts.load_executable({str(saved)!r})
        os._exit(0 if all(np.array_equal(f(x)[0], before) for f in (executable, again)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
from tensorsmith.runtime.pool import with_threads
with with_threads(3):
    for _ in range(3):
        forked(executable(x)[0])
""")


def test_a_file_with_another_drivers_source_keeps_its_pool_to_itself(saved, tmp_path):
    """Its loop over steps still runs, but this version's pool must be this version's code."""
    path = tmp_path / "older.tsm"
    path.write_bytes(with_header(saved, lambda h: h.update(driver_source="0" * 64)))
    script = f"""
import numpy as np, tensorsmith as ts
from tensorsmith.runtime import driver
executable = ts.load_executable({str(path)!r})
executable(np.zeros((4, 24), np.float32))
assert driver.process_driver() is not executable._running.driver
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.skipif(not native().is_x86, reason="the features are those of x86")
def test_compiled_for_a_lesser_machine(tmp_path):
    """The file asks for no more than its target has."""
    lesser = dataclasses.replace(native(), cpu="x86-64-v2", features="+sse4.2,+popcnt", vector_bytes=16, vector_registers=16)
    a = ts.placeholder((7, 9), name="A")
    b = Builder("small")
    x = b.input("x", (7, 9), "f32")
    b.output("y", b.add("tanh", [x]))
    ts.compile(ts.Model.from_graph(b.graph()), target=lesser).save(tmp_path / "network.tsm")
    ts.compile([a, ts.compute((7, 9), lambda i, j: ts.tanh(a[i, j]), name="C")], target=lesser).save(tmp_path / "kernel.tsm")
    for name in ("network.tsm", "kernel.tsm"):
        loaded = ts.load_executable(tmp_path / name)
        assert loaded.network.target == loaded.network.driver.target == lesser
        x = random(7, 9)
        np.testing.assert_allclose(loaded(x), np.tanh(x), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not native().is_x86, reason="the file is for x86")
def test_a_file_of_an_earlier_day():
    """It was written before targets had a kind. Its driver still is this version's: nothing is compiled."""
    path = Path(__file__).parents[1] / "golden" / "two_layers.tsm"
    weight = np.random.default_rng(1).uniform(-1, 1, (8, 8)).astype(np.float32)
    x = random(3, 8)
    loaded = ts.load_executable(path)
    np.testing.assert_allclose(loaded(x), np.tanh(x @ weight) @ weight + x, rtol=1e-4, atol=1e-5)
    assert loaded.network.target.key == "x86_64/x86-64-v2/v16x16/c2"
    run_without_compiler(f"ts.load_executable({str(path)!r})(np.zeros((3, 8), np.float32))")


# What is wrong with a file.


def test_what_cannot_be_read_or_written(tmp_path, saved):
    with pytest.raises(UserError, match=r"missing\.tsm cannot be read: No such file"):
        ts.load_executable(tmp_path / "missing.tsm")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        ts.load_executable(tmp_path)
    with pytest.raises(UserError, match=r"cannot be written: No such file"):
        NETWORK.save(tmp_path / "nowhere" / "x.tsm")
    for content in (b"", b"hello", b"\x7fELF" + bytes(200), MAGIC.replace(b"\r\n", b"\n") + bytes(200)):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(UserError, match="other is no executable of Tensorsmith"):
            ts.load_executable(tmp_path / "other")


@pytest.mark.parametrize("path", [None, 3, b"x.tsm", ["x.tsm"], "", "/", "x\0y"])
def test_what_is_no_path_of_a_file(path):
    shown = re.escape(f"path is {path!r}; give the path of ")
    a = ts.placeholder((4,), name="A")
    kernel = ts.compile([a, ts.compute((4,), lambda i: a[i] + 1.0, name="C")])
    for use in (NETWORK.save, kernel.save, ts.load_executable):
        with pytest.raises(UserError, match=shown):
            use(path)


def test_a_failed_save_leaves_the_old_file(saved, tmp_path, monkeypatch):
    path = tmp_path / "kept.tsm"
    path.write_bytes(saved.read_bytes())

    def full(self: object, part: bytes) -> list[int]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorsmith.runtime.file.os.replace", full)
    with pytest.raises(UserError, match="No space left"):
        NETWORK.save(path)
    assert path.read_bytes() == saved.read_bytes() and [p.name for p in tmp_path.iterdir()] == ["kept.tsm"]


def test_a_save_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorsmith.runtime.file.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        NETWORK.save(tmp_path / "new.tsm")
    assert not list(tmp_path.iterdir())


def load_bytes(content: bytes, folder: Path) -> Any:
    path = folder / "changed.tsm"
    path.unlink(missing_ok=True)  # a file that is mapped must not shrink
    path.write_bytes(content)
    return ts.load_executable(path)


def test_another_version(saved, tmp_path):
    content = bytearray(saved.read_bytes())
    content[8] = 9
    with pytest.raises(UserError, match="has format 9, this version reads formats 4 to 6"):
        load_bytes(bytes(content), tmp_path)


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.data())
def test_any_flipped_byte_is_noticed(saved, tmp_path, data):
    content = bytearray(saved.read_bytes())
    at = data.draw(st.integers(0, 200) | st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(UserError):
        load_bytes(bytes(content), tmp_path)


@FUZZ
@given(data=st.data())
def test_any_missing_or_added_byte_is_noticed(saved, tmp_path, data):
    content = saved.read_bytes()
    end = data.draw(st.integers(0, 200) | st.integers(0, len(content) - 1))
    changed = content[:end] if data.draw(st.booleans()) else content[:end] + b"x" + content[end:]
    with pytest.raises(UserError):
        load_bytes(changed, tmp_path)


def with_header(saved: Path, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with another header, its checksum made right."""
    content = saved.read_bytes()
    magic, version, zero, size, body, _, body_hash = _PROLOGUE.unpack_from(content)
    header = json.loads(content[_PROLOGUE.size : _PROLOGUE.size + size])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(_PROLOGUE.size + len(text)) % 64)
    prologue = _PROLOGUE.pack(magic, version, zero, len(text), body, hashlib.sha256(text).digest(), body_hash)
    return prologue + text + content[_PROLOGUE.size + size :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["target"].update(features=f"{h['target']['features']},+quantum"), "needs the CPU features quantum, which"),
        (lambda h: h["target"].update(triple="riscv64-unknown-linux-gnu"), r"was compiled for \w+ \(riscv64"),
        (lambda h: h["target"].update(cores="two"), "cores is 'two'"),
        (lambda h: h.pop("name"), "name is None"),
        (lambda h: h["inputs"].append(h["inputs"][0]), "two inputs have the same name"),
        (lambda h: h["inputs"][0].__setitem__(2, "f33"), "the type of x is 'f33'"),
        (lambda h: h["inputs"][0].__setitem__(1, [4, -24]), "shape of x is -24"),
        (lambda h: h["inputs"][0].__setitem__(1, [4, 23]), "needs 384 bytes, input 0 has not"),
        (lambda h: h["inputs"][0].__setitem__(1, [2**40, 2**40]), "the shape of x is"),
        (lambda h: h["outputs"][0].__setitem__(1, [1] * 100), "y has 100 dimensions"),
        (lambda h: h["constants"][0].__setitem__(0, 2**40), "is not inside the file"),
        (lambda h: h["constants"][0].__setitem__(0, 3), "is not inside the file"),
        (lambda h: h["constants"][0].__setitem__(1, 3), "constant 0 has not"),
        (lambda h: h.update(arena_bytes=0), "arena 0 has not"),
        (lambda h: h.update(arena_bytes=1.5), "arena_bytes is 1.5"),
        (lambda h: h["steps"][0].update(kernel=99), "runs kernel 99"),
        (lambda h: h["steps"][0].update(kernel=True), "kernel is True"),
        (lambda h: h["steps"][0]["places"].pop(), "has 2 arguments, its kernel takes 3"),
        (lambda h: h["steps"][0]["places"][0].__setitem__(0, "moon"), "a place is"),
        (lambda h: h["steps"][0]["places"][2].__setitem__(1, 2**40), "arena 1099511627776 has not"),
        (lambda h: h["steps"].append(3), "steps are not all objects"),
        (lambda h: h["kernels"][0]["module"].update(symbols=["a b"]), "a function is called 'a b'"),
        (lambda h: h["kernels"][0]["module"].update(symbols=["nothing"]), "linking generated code failed|is damaged"),
        (lambda h: h["kernels"][0].update(reads=9), "9 of them read"),
        (lambda h: h["driver"].update(code=h["kernels"][0]["module"]["code"]), "is damaged"),
        (lambda h: h["driver"].update(code=h["constants"][0]), "is damaged"),
        (lambda h: h["driver"]["symbols"].remove("parallel_for"), "the driver has copy, empty_regions"),
        (lambda h: h.update(driver_source=7), "driver_source is 7"),
    ],
)
def test_every_part_of_the_header_is_checked(saved, tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        load_bytes(with_header(saved, change), tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_header_loads_or_is_refused(saved, tmp_path, data):
    """Something else at any place of the header: a clear error, or an executable whose steps stay inside their memory."""

    def change(header: dict[str, Any]) -> None:
        part: Any = header
        while True:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(part[key], (dict, list)) or not part[key] or data.draw(st.integers(0, 3)) == 0:
                part[key] = data.draw(JSON)
                return
            part = part[key]

    try:
        loaded = load_bytes(with_header(saved, change), tmp_path)
    except UserError as problem:
        assert len(str(problem)) > 20
    else:
        loaded.network.check()
