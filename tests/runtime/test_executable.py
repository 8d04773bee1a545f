"""The callable: right answers, and a clear error for whatever else it is given."""

from __future__ import annotations

import re
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.kernels import alone

import tensorsmith as ts
from tensorsmith.errors import TensorsmithError, UserError
from tensorsmith.runtime import buffers
from tensorsmith.runtime.arguments import DTYPES, Argument
from tensorsmith.runtime.buffers import PAGE, aligned_empty, aligned_zeros, as_array, data_pointer, output_allocator
from tensorsmith.runtime.executable import Benchmark, Executable
from tensorsmith.runtime.pool import with_threads

LOOP = """
define void @{name}(ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for) {{
entry:
  %a = load ptr, ptr %arguments
  %b.at = getelementptr ptr, ptr %arguments, i64 1
  %b = load ptr, ptr %b.at
  %c.at = getelementptr ptr, ptr %arguments, i64 2
  %c = load ptr, ptr %c.at
  {more}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %left = icmp slt i64 %i, {count}
  br i1 %left, label %body, label %done
body:
  %a.i = getelementptr {type}, ptr %a, i64 %i
  %b.i = getelementptr {type}, ptr %b, i64 %i
  %c.i = getelementptr {type}, ptr %c, i64 %i
  %x = load {type}, ptr %a.i
  %y = load {type}, ptr %b.i
  %z = {add} {type} %x, %y
  store {type} %z, ptr %c.i
  {also}
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""

# Outputs A + B and A - B.
TWO = LOOP.format(
    name="two", count=6, type="float", add="fadd",
    more="%d.at = getelementptr ptr, ptr %arguments, i64 3\n  %d = load ptr, ptr %d.at",
    also="%d.i = getelementptr float, ptr %d, i64 %i\n  %w = fsub float %x, %y\n  store float %w, ptr %d.i",
)  # fmt: skip

# 1000 indices; each thread counts its own in its part of the scratch memory (1 shared word, then 100 bytes per thread:
# 64 and a stride of 128), the entry then adds up what the threads counted.
COUNTS = """
define internal void @body(ptr %parts, i64 %begin, i64 %end, i64 %thread) {
  %offset = shl i64 %thread, 7
  %mine = getelementptr i8, ptr %parts, i64 %offset
  %old = load i64, ptr %mine
  %size = sub i64 %end, %begin
  %new = add i64 %old, %size
  store i64 %new, ptr %mine
  ret void
}
define void @entry(ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for) {
entry:
  %threads.at = load ptr, ptr %arguments
  %threads = load i64, ptr %threads.at
  %out.at = getelementptr ptr, ptr %arguments, i64 1
  %out = load ptr, ptr %out.at
  %parts = getelementptr i8, ptr %scratch, i64 64
  %bytes = shl i64 %threads, 7
  call void @llvm.memset.p0.i64(ptr %parts, i8 0, i64 %bytes, i1 false)
  call void %parallel_for(ptr %pool, ptr @body, ptr %parts, i64 1000)
  br label %loop
loop:
  %t = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %more.sum, %loop ]
  %offset = shl i64 %t, 7
  %part = getelementptr i8, ptr %parts, i64 %offset
  %v = load i64, ptr %part
  %more.sum = add i64 %sum, %v
  %next = add i64 %t, 1
  %more = icmp slt i64 %next, %threads
  br i1 %more, label %loop, label %done
done:
  store i64 %more.sum, ptr %out
  ret void
}
"""


def adder(shape: tuple[int, ...] = (2, 3), dtype: str = "f32", **options: Any) -> Executable:
    """C = A + B."""
    kind = {"f16": "half", "f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}.get(dtype, "i8")
    add = "fadd" if dtype[0] == "f" else "add"
    count = int(np.prod(shape, dtype=int))
    text = LOOP.format(name="entry", count=count, type=kind, add=add, more="", also="")
    arguments = [Argument(name, shape, dtype) for name in "ABC"]
    return alone(text, arguments[:2], arguments[2:], "adder", **options)


@pytest.fixture(scope="module")
def add() -> Executable:
    return adder()


A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.full((2, 3), 10, np.float32)


def test_positions_names_and_out(add):
    out = np.empty((2, 3), np.float32)
    assert np.array_equal(add(A, B), A + B)
    assert np.array_equal(add(A, B=B), A + B)
    assert np.array_equal(add(B=B, A=A), A + B)
    assert add(A, B, out=out) is out and np.array_equal(out, A + B)
    assert add(A, B, out=(out,)) is out
    assert data_pointer(add(A, B)) % 64 == 0


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "u8", "i32", "i64"])
def test_dtypes(dtype):
    a = np.arange(6).astype(DTYPES[dtype])
    assert np.array_equal(adder((6,), dtype)(a, a), a + a)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (17,)])
def test_shapes(shape):
    a = np.ones(shape, np.float32)
    result = adder(shape)(a, a)
    assert result.shape == shape and (result == 2).all()


def test_several_outputs():
    arguments = [Argument(name, (6,), "f32") for name in "ABCD"]
    two = alone(TWO, arguments[:2], arguments[2:], "two")
    a, b = A.ravel(), B.ravel()
    total, difference = two(a, b)
    assert np.array_equal(total, a + b) and np.array_equal(difference, a - b)
    c = np.empty(6, np.float32)
    with pytest.raises(UserError, match="out has 1 array, two has 2 outputs"):
        two(a, b, out=c)
    with pytest.raises(UserError, match="out for D overlaps the memory of C"):
        two(a, b, out=(c, c))


def test_inputs_in_other_layouts_are_copied(add):
    wide = np.arange(12, dtype=np.float32).reshape(2, 6)
    shifted = np.frombuffer(b"x" + A.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    locked = A.copy()
    locked.flags.writeable = False
    for other in (wide[:, ::2], np.asfortranarray(A), A[::-1, ::-1], shifted, locked, np.broadcast_to(A[:1], (2, 3))):
        assert np.array_equal(add(other, B), other + B)


@pytest.mark.peers
def test_other_libraries_tensors(add):
    import torch

    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert np.array_equal(add(tensor, B), A + B)
    assert np.array_equal(add(tensor.T.contiguous().T, B), A + B)
    with pytest.raises(UserError, match=r"B is a torch\.Tensor that requires a gradient; give B\.detach\(\)"):
        add(A, tensor.clone().requires_grad_())
    with pytest.raises(UserError, match="B must be f32, f64 given"):
        add(A, tensor.double())
    with pytest.raises(UserError, match="B must be f32, bf16 given"):
        add(A, tensor.to(torch.bfloat16))


@pytest.mark.peers
def test_tensors_of_bf16():
    import torch

    a = ts.placeholder((3, 5), "bf16", name="A")
    twice = ts.compile([a, ts.compute((3, 5), lambda i, j: a[i, j] + a[i, j], name="C")])
    tensor = torch.randn(3, 5).to(torch.bfloat16)
    before = tensor.clone()
    for one in (tensor, tensor.T.contiguous().T):
        got = twice(one)
        assert got.dtype == ml_dtypes.bfloat16
        assert np.array_equal(got.astype("f4"), (tensor + tensor).float().numpy())
    assert torch.equal(tensor, before) and tensor.dtype == torch.bfloat16  # what was exported is as it was


def test_dlpack_without_torch():
    class Tensor:
        def __init__(self, array: np.ndarray, device: int = 1) -> None:
            self.array, self.device = array, device

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.device, 0

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

    array = np.arange(3.0)
    assert data_pointer(as_array(Tensor(array), "x")) == data_pointer(array)
    with pytest.raises(UserError, match=r"x is a .*Tensor on another device than the CPU"):
        as_array(Tensor(array, device=2), "x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A,), r"adder takes 2 inputs \(A, B\), 1 given"),
        ((), r"adder takes 2 inputs \(A, B\), 0 given"),
        ((A, B, B), r"adder takes 2 inputs \(A, B\), 3 given"),
        ((A, B.T), r"B must have shape \(2, 3\), \(3, 2\) given"),
        ((A.ravel(), B), r"A must have shape \(2, 3\), \(6,\) given"),
        ((A.astype(float), B), "A must be f32, f64 given"),
        ((A.astype(">f4"), B), "A must be f32, >f4 .byte order swapped. given"),
        ((A.astype(complex), B), "A must be f32, complex128 given"),
        ((A, B.astype(object)), "B must be f32, object given"),
        ((A.tolist(), B), "A is a list; give a NumPy array"),
        ((A, None), "B is a NoneType; give a NumPy array"),
        ((A, "text"), "B is a str; give a NumPy array"),
        ((A, 1.0), "B must be f32, f64 given"),
        ((A, np.ma.masked_array(B)), "B is a masked array"),
    ],
)
def test_wrong_inputs(add, arguments, message):
    with pytest.raises(UserError, match=message):
        add(*arguments)


def test_wrong_names(add):
    with pytest.raises(UserError, match=r"adder has no input 'X'; its inputs are A, B"):
        add(A, X=B)
    with pytest.raises(UserError, match="got A twice"):
        add(A, A=B)


def test_wrong_out(add):
    locked = np.empty((2, 3), np.float32)
    locked.flags.writeable = False
    wrong = [
        (np.empty((3, 2), np.float32), "out for C must have shape"),
        (np.empty((2, 3)), "out for C must be f32, f64 given"),
        (np.empty((2, 6), np.float32)[:, ::2], "out for C is not C-contiguous"),
        (locked, "out for C is read-only"),
        ([], "out has 0 arrays"),
        (3.0, "out for C is a float"),
        ("text", "out for C is a str"),
    ]
    for out, message in wrong:
        with pytest.raises(UserError, match=message):
            add(A, B, out=out)
    memory = np.zeros(12, np.float32)
    for start in range(7):
        out = memory[start : start + 6].reshape(2, 3)
        if start == 6:
            add(memory[:6].reshape(2, 3), B, out=out)
        else:
            with pytest.raises(UserError, match="out for C overlaps the memory of A"):
                add(memory[:6].reshape(2, 3), B, out=out)


def test_empty_out_overlaps_nothing():
    memory = np.zeros(12, np.float32)
    assert adder((0,))(memory[2:2], memory[3:3], out=memory[2:2]).shape == (0,)


def test_numbers_for_rank_0():
    assert adder(())(1.5, 2) == 3.5
    assert adder(())(np.float32(1), np.array(2, np.float32)) == 3
    assert adder((), "i8")(100, 27) == 127
    for dtype, value, message in [
        ("i32", 1.5, "A must be i32, the float 1.5 given"),
        ("i8", 1000, "A must be i8, which cannot hold 1000"),
        ("f32", True, "A must be f32, the bool True given"),
        ("f32", np.float64(1), "A must be f32, f64 given"),
    ]:
        with pytest.raises(UserError, match=message):
            adder((), dtype)(value, 1)


def test_bind_copies_and_leaves_the_rest():
    add = adder(constants=frozenset({"B"}))
    b = B.copy()
    bound = add.bind(B=b)
    b[:] = 0
    assert [argument.name for argument in bound.inputs] == ["A"]
    assert np.array_equal(bound(A), A + B)
    assert np.array_equal(bound(A=A), A + B)
    assert np.array_equal(add(A, b), A)
    with pytest.raises(UserError, match=r"takes 1 input \(A\), 2 given"):
        bound(A, B)
    with pytest.raises(UserError, match="no input 'B' left to bind"):
        bound.bind(B=b)
    with pytest.raises(UserError, match="A of adder was not declared constant"):
        add.bind(A=A)
    with pytest.raises(UserError, match=r"B must have shape \(2, 3\)"):
        add.bind(B=A.T)


def test_packers_run_at_bind_or_at_every_call():
    packed = []

    def pack(array: np.ndarray) -> np.ndarray:
        packed.append(array)
        return array[::-1]  # any layout; the code sees it contiguous

    add = adder(packers={"B": pack})
    b = A * 100
    assert np.array_equal(add(A, b), A + b[::-1])
    assert np.array_equal(add(A, b), A + b[::-1])
    assert len(packed) == 2
    bound = add.bind(B=b)
    assert len(packed) == 3
    for _ in range(3):
        assert np.array_equal(bound(A), A + b[::-1])
    bound.benchmark(min_seconds=0.001)
    assert len(packed) == 3


def test_everything_bound():
    add = adder(constants=frozenset({"A", "B"})).bind(A=A).bind(B=B)
    assert np.array_equal(add(), A + B)
    assert add.benchmark(min_seconds=0.001).best > 0


def counter() -> Executable:
    threads, total = Argument("threads", (), "i64"), Argument("total", (), "i64")
    return alone(COUNTS, [threads], [total], "counter", scratch_bytes=8, scratch_bytes_per_thread=100)


def test_scratch_fits_the_threads_of_the_pool():
    count = counter()
    for threads in (1, 4, 2, 3, 1):
        with with_threads(threads):
            assert [int(count(threads)) for _ in range(20)] == [1000] * 20


def test_concurrent_calls_have_scratch_of_their_own():
    count, wrong = counter(), []

    def loop() -> None:
        with with_threads(2):
            wrong.extend(total for total in (int(count(2)) for _ in range(500)) if total != 1000)

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(count._running.frames) <= 4


def test_benchmark(add):
    timing = add.benchmark(min_seconds=0.005, rounds=5)
    assert isinstance(timing, Benchmark)
    assert 0 < timing.best <= timing.p10 <= timing.median <= timing.p90
    assert timing.best <= timing.mean and timing.repetitions >= 5
    assert "best" in str(timing)
    assert add.benchmark(A, B=B, min_seconds=0.001, threads=1).best > 0
    with pytest.raises(UserError, match="B must have shape"):
        add.benchmark(A, A.T)


def test_texts(add):
    assert "define void @entry" in add.llvm_ir == add.source("llvm") and "ret" in add.assembly == add.source("asm")
    assert add.program == "unknown: it came as machine code"
    with pytest.raises(UserError, match="has no text 'ptx'; there is llvm, asm"):
        add.source("ptx")
    assert repr(add).startswith("<Executable adder(A: f32[2, 3], B: f32[2, 3]) -> C: f32[2, 3]: 1 kernel in 1 step for ")


def test_large_outputs_begin_far_from_where_large_arrays_do_in_their_page():
    starts = {n: data_pointer(output_allocator((64, 64), "f4", "an output", n)()) % PAGE for n in range(3)}
    assert len(set(starts.values())) == 3  # nor do several outputs of a call begin alike
    assert all(512 <= start <= PAGE - 512 and start % 64 == 0 for start in starts.values())
    small = output_allocator((8,), "f4", "an output")()
    assert data_pointer(small) % 64 == 0 and small.base is not None and small.base.nbytes < PAGE  # no page for a few numbers


def test_aligned_arrays():
    for shape in [(), (0,), (1,), (3, 5), (1000,)]:
        for dtype in DTYPES.values():
            zeros, empty = aligned_zeros(shape, dtype), aligned_empty(shape, dtype)
            assert zeros.shape == empty.shape == shape and zeros.dtype == empty.dtype == dtype
            assert data_pointer(zeros) % 64 == data_pointer(empty) % 64 == 0
            assert data_pointer(zeros) == zeros.ctypes.data
            assert not zeros.any() and zeros.flags.carray and empty.flags.carray


# Any array at all: a window with any steps into memory of any type, perhaps locked, swapped or shifted by a byte.
MEMORY = np.random.default_rng(1).integers(0, 127, 4096, np.uint8)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(["<f4"] * 8 + ["<f8", ">f4", "<i4", "i1", "u1", "?", "<c8", "<f2"])))
    shape = tuple(draw(st.sampled_from([(2, 3)] * 6 + [(3, 2), (6,), (), (0,), (2, 0), (2, 3, 1), (1, 3)])))
    steps = draw(st.tuples(*[st.sampled_from([1, 1, 1, 2, -1]) for _ in shape]))
    shift = draw(st.sampled_from([0, 0, 0, 4, 8, 1, 2]))
    extent = tuple(n * abs(step) for n, step in zip(shape, steps))
    size = int(np.prod(extent, dtype=int)) * dtype.itemsize
    array = MEMORY[shift : shift + size].view(dtype).reshape(extent)
    array = array[tuple(slice(None, None, step) for step in steps)][...]
    array.flags.writeable = draw(st.booleans())
    return array


@settings(max_examples=300, deadline=None)
@given(a=arrays(), b=arrays(), out=st.none() | arrays())
def test_any_arrays_give_the_sum_or_a_clear_error(a, b, out):
    add = ADD
    before = a.copy(), b.copy()
    try:
        result = add(a, b, out=out)
    except UserError as error:
        assert any(word in str(error) for word in ("A", "B", "out for C"))
        right_inputs = all(x.dtype == np.float32 and x.dtype.isnative and x.shape == (2, 3) for x in (a, b))
        assert not right_inputs or out is not None
    else:
        with np.errstate(all="ignore"):
            expected = before[0] + before[1]
        assert result.shape == (2, 3) and np.array_equal(result, expected, equal_nan=True)
        assert out is None or result is out


@settings(max_examples=200, deadline=None)
@given(
    args=st.lists(st.sampled_from([A, B, A.T, 1.0, None, [1, 2], "A", {}, object(), np.float32(1), A[0]]), max_size=4),
    named=st.dictionaries(st.sampled_from(["A", "B", "C", "x"]), st.sampled_from([A, B, None, 3]), max_size=3),
)
def test_any_call_gives_the_sum_or_a_clear_error(args, named):
    try:
        result = ADD(*args, **named)
    except TensorsmithError as error:
        assert isinstance(error, UserError) and len(str(error)) > 10
        assert named or len(args) != 2 or args[0] is not A or args[1] is not B
    else:
        assert result.shape == (2, 3)


ADD = adder()


def too_large() -> dict[str, tuple[list[Any], str]]:
    """Computations of more memory than any machine has, by what needs it, and the words for that."""
    few, huge = ts.placeholder((8,), name="A"), 1 << 45
    k, m = ts.reduce_axis(8, "k"), ts.reduce_axis(huge, "m")
    output = ts.compute((huge, 8), lambda i, j: few[j] + 1.0, name="B")
    between = ts.compute((huge,), lambda i: ts.sum(few[k], axis=k), name="S")
    last = ts.compute((8,), lambda i: ts.max(between[m] * few[i], axis=m), name="E")
    return {
        "output": ([few, output], "output B f32[35184372088832, 8] needs 1,125,899,906,842,624 bytes (1 PiB)"),
        "scratch": ([few, last], "scratch memory for the stages between inputs and outputs needs"),
    }


@pytest.mark.parametrize("what", ["output", "scratch"])
def test_too_large_for_memory(what: str) -> None:
    computation, words = too_large()[what]
    executable = ts.compile(computation)
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        executable(np.zeros(8, np.float32))
    assert isinstance(caught.value, MemoryError)
    assert "more memory than there is" in str(caught.value)


def test_memory_that_the_machine_does_not_have_is_not_asked_for(monkeypatch) -> None:
    """A system that overcommits grants it, and ends the process when it is touched."""
    monkeypatch.setattr(buffers, "memory_bytes", lambda: 1 << 20)
    with pytest.raises(UserError, match="an array needs 2,097,152 bytes"):
        buffers.aligned_empty((1 << 19,), np.float32)
    assert buffers.aligned_empty((1 << 10,), np.float32).size == 1 << 10
