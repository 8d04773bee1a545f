"""Other processes that compile: the same code as here, for as long as there is much to compile, and nothing is lost with one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.backends.cpu.machines import target

import tensorsmith as ts
from tensorsmith.backends.cpu import compilers
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.compilers import Helper, compiled, several
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.llvm import TIDY_PASSES, _machine, compile_ir
from tensorsmith.build import Wanted, build_all
from tensorsmith.errors import InternalError
from tensorsmith.lang.define import workload
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.targets.host import THREADS

MACHINE = ts.Target.named("znver3")
WRONG = "define i32 @f() {\n  ret i64 1\n}\n"


@pytest.fixture
def helper(monkeypatch) -> Iterator[Helper]:
    made = Helper()
    monkeypatch.setattr(compilers, "_idle", [made])
    yield made
    made.close()
    assert made._process.poll() is not None


@pytest.fixture
def busy(monkeypatch) -> threading.Lock:
    """Somebody compiles in this process."""
    lock = threading.Lock()
    lock.acquire()
    monkeypatch.setattr(compilers, "_here", lock)
    return lock


def small(size: int) -> Workload:
    a, k = ts.placeholder((size, 8), name="A"), ts.reduce_axis(8, name="k")
    b = ts.placeholder((8, size), name="B", constant=True)
    return workload([a, b, ts.compute((size, size), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])


def text() -> str:
    return generate(lower(default_candidate(catalogue.get("GMM-1-b1").workload(), MACHINE)), MACHINE).ir


def test_another_process_makes_the_same_code(helper):
    here = compile_ir(text(), MACHINE)
    there = helper.compile(_machine(MACHINE), text(), TIDY_PASSES)
    assert there.data == here.data and there.exported == here.symbols == {"entry"}
    assert there.seconds.keys() == here.seconds.keys()


def test_it_is_asked_while_this_one_is_busy(helper, busy):
    asked = []
    ask, helper.compile = helper.compile, lambda *given: asked.append(given) or ask(*given)
    assert compile_ir(text(), MACHINE).data  # or it would wait for ever
    assert len(asked) == 1 and compilers._idle == [helper]
    busy.release()
    assert compile_ir(text(), MACHINE).data and len(asked) == 1


def released_later(lock: threading.Lock) -> None:
    threading.Timer(0.2, lock.release).start()


def test_one_that_died_is_not_missed(helper, busy):
    helper._process.kill()
    helper._process.wait()
    released_later(busy)
    assert compile_ir(text(), MACHINE).data and compilers._idle == []


def test_what_it_refuses_is_explained_here(helper, busy):
    released_later(busy)
    with pytest.raises(InternalError, match="LLVM cannot parse the generated code"):
        compile_ir(WRONG, MACHINE)
    assert compilers._idle == [helper] and helper.compile(_machine(MACHINE), text(), TIDY_PASSES) is not None


@pytest.mark.parametrize(
    ("kernels", "threads", "at_once"), [(100, 1, 1), (3, 8, 1), (16, 2, 2), (100, 2, 2), (33, 8, 3), (1000, 16, 4)]
)
def test_as_many_as_are_worth_it(monkeypatch, kernels, threads, at_once):
    class Pretended:
        def __init__(self) -> None:
            started.append(self)

        def close(self) -> None:
            ended.append(self)

    started: list[Pretended] = []
    ended: list[Pretended] = []
    monkeypatch.setattr(compilers, "Helper", Pretended)
    monkeypatch.setenv(THREADS, str(threads))
    with several(kernels) as found:
        assert found == at_once == 1 + len(started) == 1 + len(compilers._idle) and not ended
    assert ended == started and not compilers._idle


@pytest.mark.parametrize("program", ["", "/usr/bin/uwsgi"])
def test_a_program_that_has_python_inside_starts_none(monkeypatch, program):
    monkeypatch.setattr("sys.executable", program)
    monkeypatch.setenv(THREADS, "4")
    with several(100) as at_once:
        assert at_once == 1


def test_a_network_is_the_same_with_and_without(monkeypatch):
    wanted = [Wanted(small(size), [], f"kernel {size}") for size in (16, 17, 32, 33)]
    monkeypatch.setenv(THREADS, "2")
    alone = [k.code.data for k in build_all(wanted, MACHINE)]
    monkeypatch.setattr(compilers, "_WORTH_ANOTHER", 2)
    asked = []
    ask = Helper.compile
    monkeypatch.setattr(Helper, "compile", lambda self, *given: asked.append(self) or ask(self, *given))
    monkeypatch.setattr(compilers, "_here", _Never())  # this process has no time at all, so that the other one is asked
    assert [k.code.data for k in build_all(wanted, MACHINE)] == alone and asked
    assert [k.name for k in build_all(wanted, MACHINE)] == [w.name for w in wanted]


class _Never:
    """A lock that others hold whenever somebody asks without waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        return blocking and self._lock.acquire()

    def release(self) -> None:
        self._lock.release()


def test_machines_are_told_apart():
    assert _machine(target()) == _machine(target()) != _machine(MACHINE)
    assert compiled(_machine(MACHINE), text(), TIDY_PASSES).data != compiled(_machine(ts.Target.named("znver4")), text(), "").data
