"""Plain calls: made by compiled code whenever they can be, and refused whenever a single thing is unusual."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.kernels import alone
from tests.runtime.networks import compiled, perceptron, random
from tests.runtime.test_executable import TWO, adder, arrays, counter
from tests.runtime.test_network_file import run_without_compiler

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.runtime import call, pool
from tensorsmith.runtime.arguments import DTYPES, Argument
from tensorsmith.runtime.call import never_plain, plain_calls
from tensorsmith.runtime.executable import Executable

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.full((2, 3), 10, np.float32)


def two() -> Executable:
    """C, D = A + B, A - B."""
    arguments = [Argument(name, (2, 3), "f32") for name in "ABCD"]
    return alone(TWO, arguments[:2], arguments[2:], "two")


def in_python(executable: Executable) -> Executable:
    """The same, none of whose calls is plain."""
    executable._call_plainly = never_plain
    return executable


def warm(executable: Executable, *inputs: Any) -> Executable:
    """Its first call makes the pool and a frame."""
    executable(*inputs)
    return executable


ADD, TWICE = warm(adder(), A, B), warm(two(), A, B)
SLOW_ADD, SLOW_TWICE = in_python(adder()), in_python(two())


class Counted:
    """How many plain calls there were inside."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    def __enter__(self) -> Counted:
        self.before = plain_calls(self.executable._call_plainly)
        return self

    def __exit__(self, *problem: object) -> None:
        self.calls = plain_calls(self.executable._call_plainly) - self.before


def empty(*shape: int) -> np.ndarray:
    return np.full(shape or (2, 3), np.nan, np.float32)


# What is plain.


def test_the_first_call_makes_a_frame_and_all_others_are_plain():
    add = adder()
    assert np.array_equal(add(A, B), A + B) and plain_calls(add._call_plainly) == 0
    out = empty()
    with Counted(add) as counted:
        assert add(A, B, out=out) is out
        assert np.array_equal(out, A + B)
        assert np.array_equal(add(A, B), A + B)
        assert np.array_equal(add(B=B, A=A), A + B)
        assert np.array_equal(add(A, B=B, out=empty()), A + B)
    assert counted.calls == 4 and len(add._running.frames) == len(add._running.free) == 1


def test_inputs_may_be_the_same_array_and_locked():
    locked = A.copy()
    locked.flags.writeable = False
    with Counted(ADD) as counted:
        assert np.array_equal(ADD(locked, locked, out=empty()), 2 * A)
    assert counted.calls == 1


@pytest.mark.parametrize("kind", [tuple, list])
def test_several_outputs(kind):
    c, d = empty(), empty()
    with Counted(TWICE) as counted:
        results = TWICE(A, B, out=kind([c, d]))
        assert type(results) is tuple and results[0] is c and results[1] is d
        assert np.array_equal(c, A + B) and np.array_equal(d, A - B)
        assert [r.tolist() for r in TWICE(A, B)] == [c.tolist(), d.tolist()]
    assert counted.calls == 2


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (17,), (1, 1, 1, 2, 1, 1, 1)])
def test_shapes(shape):
    x = np.ones(shape, np.float32)
    add = warm(adder(shape), x, x)
    with Counted(add) as counted:
        result = add(x, x, out=np.zeros(shape, np.float32))
    assert counted.calls == 1 and (result == 2).all()


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "u8", "i32", "i64"])
def test_types(dtype):
    x = np.arange(6).astype(DTYPES[dtype])
    add = warm(adder((6,), dtype), x, x)
    with Counted(add) as counted:
        assert np.array_equal(add(x, x, out=np.zeros_like(x)), x + x)
    assert counted.calls == 1


def test_bound_constants():
    add = adder(constants=frozenset({"A", "B"})).bind(B=B)
    warm(add, A)
    with Counted(add) as counted:
        assert np.array_equal(add(A, out=empty()), A + B)
    assert counted.calls == 1
    nothing_left = warm(add.bind(A=A))
    with Counted(nothing_left) as counted:
        assert np.array_equal(nothing_left(out=empty()), A + B)
    assert counted.calls == 1


def test_packers_are_not_passed_by():
    add = adder(packers={"B": lambda array: array[::-1]})
    for _ in range(3):
        assert np.array_equal(add(A, A * 100), A + A[::-1] * 100)
    assert plain_calls(add._call_plainly) == 0
    bound = warm(add.bind(B=A * 100), A)
    with Counted(bound) as counted:
        assert np.array_equal(bound(A), A + A[::-1] * 100)
    assert counted.calls == 1


# What is not: the same answer as without compiled code, or the same words.


def shifted(array: np.ndarray) -> np.ndarray:
    """A copy whose data is misaligned."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    copy = memory[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def locked(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class Subclass(np.ndarray):
    pass


MEMORY = np.zeros(24, np.float32)


def window(start: int) -> np.ndarray:
    return MEMORY[start : start + 6].reshape(2, 3)


WRONG_INPUTS = {
    "none": (),
    "too few": (A,),
    "too many": (A, B, B),
    "a list": (A, B.tolist()),
    "nothing": (A, None),
    "a number": (1.0, B),
    "a scalar": (np.float32(1), B),
    "a tuple": ((A, B), B),
    "masked": (A, np.ma.masked_array(B)),
    "type": (A.astype(np.float64), B),
    "type of the same size": (A, B.astype(np.int32)),
    "byte order": (A.astype(">f4"), B),
    "rank": (A.reshape(6), B),
    "larger rank": (A, B.reshape(2, 3, 1)),
    "first extent": (empty(3, 3), B),
    "last extent": (A, empty(2, 4)),
    "empty": (empty(0, 3), B),
    "all extents": (A, empty(3, 2)),
}
UNUSUAL_INPUTS = {
    "subclass": (A.view(Subclass), B),
    "strided": (A, empty(2, 6)[:, ::2]),
    "backwards": (A[::-1], B),
    "Fortran": (np.asfortranarray(A), B),
    "broadcast": (A, np.broadcast_to(B[:1], (2, 3))),
    "misaligned": (shifted(A), B),
}


@pytest.mark.parametrize("inputs", WRONG_INPUTS.values(), ids=WRONG_INPUTS)
def test_wrong_inputs_are_refused_in_the_same_words(inputs):
    assert ADD._call_plainly(inputs, empty()) is None
    for options in ({}, {"out": empty()}):
        with pytest.raises(UserError) as slow:
            SLOW_ADD(*inputs, **options)
        with Counted(ADD) as counted, pytest.raises(UserError) as fast:
            ADD(*inputs, **options)
        assert str(fast.value) == str(slow.value) and counted.calls == 0


@pytest.mark.parametrize("inputs", UNUSUAL_INPUTS.values(), ids=UNUSUAL_INPUTS)
def test_unusual_inputs_go_the_long_way(inputs):
    assert ADD._call_plainly(inputs, empty()) is None
    assert np.array_equal(ADD(*inputs), SLOW_ADD(*inputs), equal_nan=True)
    assert np.array_equal(ADD(*inputs), inputs[0] + inputs[1], equal_nan=True)


WRONG_OUT = {
    "a number": 3.0,
    "text": "text",
    "empty list": [],
    "two": (empty(), empty()),
    "type": np.empty((2, 3)),
    "byte order": empty().astype(">f4"),
    "rank": empty(6),
    "extent": empty(2, 4),
    "strided": empty(2, 6)[:, ::2],
    "Fortran": np.asfortranarray(empty()),
    "misaligned": shifted(A),
    "locked": locked(empty()),
}


@pytest.mark.parametrize("out", WRONG_OUT.values(), ids=WRONG_OUT)
def test_wrong_out_is_refused_in_the_same_words(out):
    assert ADD._call_plainly((A, B), out) is None
    with pytest.raises(UserError) as slow:
        SLOW_ADD(A, B, out=out)
    with Counted(ADD) as counted, pytest.raises(UserError) as fast:
        ADD(A, B, out=out)
    assert str(fast.value) == str(slow.value) and counted.calls == 0


WRONG_OUTS = {
    "one": empty(),
    "too few": [empty()],
    "too many": (empty(), empty(), empty()),
    "first": (np.empty((2, 3)), empty()),
    "second": (empty(), locked(empty())),
    "not an array": (empty(), None),
    "text": "CD",
    "a number": 3.0,
    "an iterator": iter([empty(), empty()]),
}


@pytest.mark.parametrize("out", WRONG_OUTS.values(), ids=WRONG_OUTS)
def test_wrong_outs_are_refused_in_the_same_words(out):
    assert TWICE._call_plainly((A, B), out) is None
    with pytest.raises(UserError) as slow:
        SLOW_TWICE(A, B, out=out)
    with Counted(TWICE) as counted, pytest.raises(UserError) as fast:
        TWICE(A, B, out=out)
    assert str(fast.value) == str(slow.value) and counted.calls == 0


def test_other_forms_of_out_go_the_long_way():
    c, d = empty(), empty()
    assert ADD(A, B, out=(c,)) is c and ADD(A, B, out={"C": c}) is c
    assert TWICE(A, B, out={"D": d, "C": c})[1] is d
    assert ADD._call_plainly((A, B), (c,)) is None and TWICE._call_plainly((A, B), {"C": c, "D": d}) is None


@pytest.mark.parametrize("start", range(13))
def test_out_must_not_overlap_an_input(start):
    """The input is the six words in the middle; only those right before and behind it are free."""
    out, inputs = window(start), (window(6), B)
    for order in (inputs, inputs[::-1]):
        if start in (0, 12):
            assert ADD._call_plainly(order, out) is out
            continue
        assert ADD._call_plainly(order, out) is None
        with pytest.raises(UserError) as slow:
            SLOW_ADD(*order, out=out)
        with pytest.raises(UserError) as fast:
            ADD(*order, out=out)
        assert str(fast.value) == str(slow.value)


@pytest.mark.parametrize("start", range(13))
def test_outs_must_not_overlap_each_other(start):
    for outs in ((window(6), window(start)), (window(start), window(6))):
        if start in (0, 12):
            assert TWICE._call_plainly((A, B), outs) == outs
            continue
        assert TWICE._call_plainly((A, B), outs) is None
        with pytest.raises(UserError, match="out for D overlaps the memory of C; give an array of its own"):
            TWICE(A, B, out=outs)


def test_empty_arrays_overlap_nothing():
    nothing = MEMORY[2:2]
    add = warm(adder((0,)), nothing, nothing)
    assert add._call_plainly((nothing, MEMORY[3:3]), nothing) is nothing


@settings(max_examples=300, deadline=None)
@given(a=arrays(), b=arrays(), out=st.none() | arrays())
def test_any_arrays_give_what_they_give_in_python(a, b, out):
    def outcome(executable: Executable) -> Any:
        memory = None if out is None else (out, out.copy(), out.flags.writeable)
        try:
            return executable(a, b, out=out).tobytes()
        except UserError as error:
            return str(error)
        finally:
            if memory is not None and memory[2]:
                out[...] = memory[1]

    assert outcome(ADD) == outcome(SLOW_ADD)


# Frames and pools.

WHICH_POOL = """
define void @entry(ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for) {
  %out = load ptr, ptr %arguments
  %handle = ptrtoint ptr %pool to i64
  store i64 %handle, ptr %out
  %function.at = getelementptr i64, ptr %out, i64 1
  %function = ptrtoint ptr %parallel_for to i64
  store i64 %function, ptr %function.at
  ret void
}
"""


def test_the_code_gets_the_pool_that_is_wanted():
    which = alone(WHICH_POOL, [], [Argument("out", (2,), "i64")])
    with pool.with_threads(3):
        warm(which)  # a frame large enough for all below
    for threads in (None, 1, 3, 2, None):
        with pool.with_threads(threads) as wanted, Counted(which) as counted:
            assert which().tolist() == [wanted.handle, wanted.parallel_for_address]
        assert counted.calls == 1


def test_a_frame_for_fewer_threads_is_replaced():
    count, threads = counter(), np.array(3)
    with pool.with_threads(1):
        warm(count, np.array(1))
    with pool.with_threads(3), Counted(count) as counted:
        assert [int(count(threads)) for _ in range(5)] == [1000] * 5
    assert counted.calls == 4 and len(count._running.frames) == len(count._running.free) == 1


def test_a_call_after_an_error_finds_its_frame():
    add = warm(adder(), A, B)
    for _ in range(3):
        with pytest.raises(UserError):
            add(A, B.T)
        with Counted(add) as counted:
            assert np.array_equal(add(A, B), A + B)
        assert counted.calls == 1
    assert len(add._running.frames) == len(add._running.free) == 1


# Waits until its input is no longer 0 (or for some seconds, so that a failing test ends), and gives what it saw.
WAITS = """
define void @entry(ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for) {
entry:
  %flag = load ptr, ptr %arguments
  %out.at = getelementptr ptr, ptr %arguments, i64 1
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n.next, %look ]
  %seen = load atomic i64, ptr %flag acquire, align 8
  %set = icmp ne i64 %seen, 0
  %n.next = add i64 %n, 1
  %enough = icmp ugt i64 %n, 20000000000
  %stop = or i1 %set, %enough
  br i1 %stop, label %done, label %look
done:
  %out = load ptr, ptr %out.at
  store i64 %seen, ptr %out
  ret void
}
"""


def test_while_the_code_runs_other_python_threads_do_and_may_call_it_too():
    waits = alone(WAITS, [Argument("flag", (), "i64")], [Argument("seen", (), "i64")])
    flags = [np.array(1), np.array(0), np.array(2)]
    outs = [np.array(-1) for _ in flags]
    warm(waits, flags[0])
    with Counted(waits) as counted:
        thread = threading.Thread(target=lambda: waits(flags[1], out=outs[1]))
        thread.start()
        while waits._running.free and thread.is_alive():  # until it is inside
            threading.Event().wait(1e-3)
        waits(flags[2], out=outs[2])  # makes a frame of its own
        waits(flags[2], out=outs[0])  # takes that
        assert outs[1] == -1
        flags[1][...] = 7
        thread.join()
    assert [int(out) for out in outs] == [2, 7, 2]
    assert counted.calls == 2 and len(waits._running.frames) == len(waits._running.free) == 2


def test_several_python_threads():
    wrong: list[int] = []
    add = adder((1000,))

    def work(number: int) -> None:
        a, b, out = (np.full(1000, v, np.float32) for v in (number, 100 * number, 0))
        for n in range(2000):
            a[n % 1000] = n
            if not np.array_equal(add(a, b, out=out), a + b):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and plain_calls(add._call_plainly) > 0
    assert len(add._running.frames) == len(add._running.free) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("threads", [None, 3])
def test_after_a_fork_the_first_call_makes_a_pool(threads):
    count = counter()
    with pool.with_threads(threads) as own:
        given = np.array(own.threads)
        count(given)
        child = os.fork()
        if child == 0:
            before = plain_calls(count._call_plainly)
            answers = [int(count(given)), plain_calls(count._call_plainly) - before]
            answers += [int(count(given)), plain_calls(count._call_plainly) - before]
            os._exit(0 if answers == [1000, 0, 1000, 1] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with Counted(count) as counted:
            assert int(count(given)) == 1000
        assert counted.calls == 1


# Ownership.

LOOPS = 5000


def test_references_are_neither_kept_nor_lost():
    add, twice = warm(adder(), A, B), warm(two(), A, B)
    a, b, out, other = A.copy(), B.copy(), empty(), empty()
    as_list, as_tuple = [out, other], (out, other)
    watched = [
        a,
        b,
        out,
        other,
        as_list,
        as_tuple,
        (a, b),
        add._running.free,
        add._running.free[0],
        twice._running.free[0],
        a.dtype,
        None,
        2,
    ]
    wrong = A.astype(np.float64)

    def references() -> list[int]:
        return [sys.getrefcount(thing) for thing in watched]

    def call_in_every_way() -> None:
        add(a, b, out=out)
        add(a, b)
        twice(a, b, out=as_list)
        twice(a, b, out=as_tuple)
        twice(a, b)
        for inputs, outs in (((a, wrong), out), ((a,), out), ((a, b), a), ((a, b), wrong)):
            assert add._call_plainly(inputs, outs) is None
        for outs in ((out, out), [out, wrong], [out], (out,), {}):
            assert twice._call_plainly((a, b), outs) is None

    with pool.with_threads(2):
        call_in_every_way()
        before = references()
        for _ in range(LOOPS):
            call_in_every_way()
        after = references()
    assert before[:-3] == after[:-3]
    assert all(abs(x - y) < LOOPS / 2 for x, y in zip(before, after, strict=True))  # others use the last three too


def test_a_dropped_executable_is_freed_at_once():
    add = warm(adder(), A, B)
    watched, keep = weakref.ref(add), weakref.ref(add._running.loaded[0])
    del add
    assert watched() is None and keep() is None


def test_the_function_keeps_what_it_needs():
    add = warm(adder(constants=frozenset({"B"})).bind(B=B), A)
    plain = add._call_plainly
    del add
    for _ in range(3):
        assert np.array_equal(plain((A,), empty()), A + B)


# Networks.


def chain(weight: np.ndarray) -> Executable:
    """x is read by two steps, and handed on."""
    b = Builder("chain")
    x = b.input("x", (4, 8), "f32")
    b.output("y", b.add("add", [b.add("matmul", [x, b.constant(weight, "w")]), x]))
    b.output("x itself", x)
    return compiled(b.graph())


def test_networks():
    weight, x = random(8, 8), random(4, 8)
    network = warm(chain(weight), random(4, 8))
    wanted = in_python(chain(weight))(x)[0]
    y, again = empty(4, 8), empty(4, 8)
    with Counted(network) as counted:
        results = network(x, out=(y, again))
        assert results[0] is y and results[1] is again
        assert np.array_equal(y, wanted) and np.array_equal(again, x)
        assert np.array_equal(network(x)[0], wanted)
        assert np.array_equal(network.run({"x": x})["y"], wanted)
    assert counted.calls == 3
    for out in ((y, y), (x, y), (y, x), (y,)):
        assert network._call_plainly((x,), out) is None


def test_loaded_executables_make_plain_calls_without_a_compiler(tmp_path):
    network = compiled(perceptron())
    x = random(4, 24)
    network.save(tmp_path / "network.tsm")
    a, b = ts.placeholder((20, 30), name="A"), ts.placeholder((20, 30), name="B", constant=True)
    kernel = ts.compile([a, b, ts.compute((20, 30), lambda i, j: a[i, j] * b[i, j], name="C")]).bind(B=random(20, 30))
    kernel.save(tmp_path / "kernel.tsm")
    given = random(20, 30)
    np.savez(tmp_path / "data.npz", x=x, y=network(x)[0], given=given, product=kernel(given))
    run_without_compiler(f"""
from tensorsmith.runtime.call import plain_calls
data = np.load({str(tmp_path / "data.npz")!r})
for name, x, y in (("network", data["x"], data["y"]), ("kernel", data["given"], data["product"])):
    executable = ts.load_executable({str(tmp_path)!r} + f"/{{name}}.tsm")
    for _ in range(5):
        result = executable(x)
        assert np.array_equal(result[0] if name == "network" else result, y)
    assert plain_calls(executable._call_plainly) == 4
""")


# Where the layout of objects is not the one that the code knows.


def test_without_compiled_calls_everything_works(monkeypatch):
    monkeypatch.setattr(call, "_fits_this_python", lambda: False)
    add = adder()
    for _ in range(3):
        assert np.array_equal(add(A, B), A + B)
    assert add._call_plainly is never_plain and plain_calls(add._call_plainly) == 0


def test_this_python_is_one_that_it_fits():
    assert call._fits_this_python()


@pytest.mark.parametrize("field", call.ARRAY)
def test_another_layout_is_noticed(field, monkeypatch):
    monkeypatch.setitem(call.ARRAY, field, call.ARRAY[field] + 8)  # the next field: behind the shape are the strides
    assert not call._fits_this_python.__wrapped__()
