"""The PTX interpreter that kernels are tested with: that it computes what PTX says, and notices what is wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends.gpu.ptx import from_llvm
from tests.backends.gpu.ptx.machine import run
from tests.backends.gpu.ptx.memory import Memory
from tests.backends.gpu.ptx.parse import PtxError, parse

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"


def entry(body: str, parameters: int = 2, shared: str = "") -> str:
    """A kernel of pointers; `%a0`, `%a1`, ... are those, `%t` is the thread, `%b` the block, `%o` four times the thread."""
    names = [f"k_param_{n}" for n in range(parameters)]
    loads = "".join(f"ld.param.b64 %a{n}, [{name}];\n" for n, name in enumerate(names))
    given_ = ",\n".join(f".param .u64 .ptr .global .align 4 {name}" for name in names)
    return f"""{HEAD}.visible .entry k(
{given_}
)
{{
.reg .pred %p<9>; .reg .b32 %r<99>; .reg .b64 %rd<99>;
{shared}
// %bb.0:
{loads}
mov.u32 %t, %tid.x;
mov.u32 %b, %ctaid.x;
mul.wide.u32 %o, %t, 4;
{body}
ret;
}}"""


def result(
    body: str, x: np.ndarray, threads: int = 32, dtype: type = np.float32, count: int | None = None, **how: object
) -> np.ndarray:
    """What a kernel makes of `x` (at `%a0`): the memory at `%a1`."""
    memory = Memory()
    out = memory.room(4 * (threads if count is None else count) * np.dtype(dtype).itemsize // 4)
    shared = how.pop("shared", "")
    run(parse(entry(body, shared=str(shared)))["k"], memory, 1, threads, [memory.put(x), out])
    return memory.get(out, dtype, threads if count is None else count)


LOAD = "add.s64 %rd1, %a0, %o;\nld.global.b32 %r1, [%rd1];\n"
STORE = "add.s64 %rd2, %a1, %o;\nst.global.b32 [%rd2], %r9;\n"


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("add.f32 %r9, %r1, 0f3F800000;", lambda x: x + 1),
        ("fma.rn.f32 %r9, %r1, %r1, %r1;", lambda x: (x.astype(float) * x + x).astype(np.float32)),
        ("neg.f32 %r9, %r1;", lambda x: -x),
        ("abs.f32 %r9, %r1;", np.abs),
        ("max.f32 %r9, %r1, 0f00000000;", lambda x: np.maximum(x, 0)),
        ("div.rn.f32 %r9, %r1, 0f40400000;", lambda x: x / np.float32(3)),
        ("ex2.approx.ftz.f32 %r9, %r1;", lambda x: np.exp2(x.astype(float)).astype(np.float32)),
        ("setp.lt.f32 %p1, %r1, 0f00000000;\nselp.f32 %r9, 0f3F800000, %r1, %p1;", lambda x: np.where(x < 0, 1, x)),
        ("setp.lt.f32 %p1, %r1, 0f00000000;\nmov.b32 %r9, %r1;\n@%p1 mov.b32 %r9, 0f40000000;", lambda x: np.where(x < 0, 2, x)),
        ("setp.gt.f32 %p1, %r1, 0f00000000;\nsetp.lt.and.f32 %p2, %r1, 0f3F800000, %p1;\nselp.f32 %r9, 0f40000000, %r1, %p2;",
         lambda x: np.where((x > 0) & (x < 1), 2, x)),
        ("cvt.rzi.s32.f32 %r2, %r1;\ncvt.rn.f32.s32 %r9, %r2;", np.trunc),
        ("cvt.rmi.f32.f32 %r9, %r1;", np.floor),
        ("cvt.rn.f16.f32 %rs1, %r1;\nfma.rn.f16 %rs2, %rs1, %rs1, %rs1;\ncvt.f32.f16 %r9, %rs2;",
         lambda x: (lambda h: (h.astype(float) * h + h).astype(np.float16).astype(np.float32))(x.astype(np.float16))),
        ("mov.b32 {%rs1, %rs2}, %r1;\nmov.b32 %r9, {%rs2, %rs1};",
         lambda x: x.view(np.uint16).reshape(-1, 2)[:, ::-1].copy().view("f")[:, 0]),
        ("shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", lambda x: x.reshape(-1, 2)[:, ::-1].reshape(-1)),
        ("shfl.sync.down.b32 %r9, %r1, 4, 31, -1;", lambda x: np.r_[x[4:], x[-4:]]),
        ("shfl.sync.idx.b32 %r9, %r1, 3, 6175, -1;", lambda x: x.reshape(-1, 8)[:, 3].repeat(8)),
    ],
    ids=lambda v: re.split(r"[ ;]", v)[0] if isinstance(v, str) else "",
)  # fmt: skip
def test_instructions(instruction: str, expected: object) -> None:
    assert callable(expected)
    x = (np.random.default_rng(0).standard_normal(32) * 3).astype(np.float32)
    np.testing.assert_allclose(result(LOAD + instruction + STORE, x), expected(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("mad.lo.s32 %r9, %r1, 7, %r1;", lambda x: x * 8),
        ("rem.s32 %r9, %r1, 5;", lambda x: np.fmod(x, 5)),
        ("div.s32 %r9, %r1, -5;", lambda x: np.trunc(x / -5).astype(np.int32)),
        ("div.u32 %r9, %r1, 5;", lambda x: (x.view(np.uint32) // 5).view(np.int32)),
        ("shr.s32 %r9, %r1, 3;", lambda x: x >> 3),
        ("shr.u32 %r9, %r1, 33;", lambda x: x * 0),
        ("shl.b32 %r9, %r1, 4;", lambda x: x << 4),
        ("mul.hi.u32 %r9, %r1, 858993460;",
         lambda x: ((x.view(np.uint32).astype(object) * 858993460) >> 32).astype(np.uint32).view("i4")),
        ("bfe.u32 %r9, %r1, 3, 5;", lambda x: (x.view(np.uint32) >> 3 & 31).view(np.int32)),
        ("bfe.s32 %r9, %r1, 2, 6;", lambda x: ((x >> 2 & 63) ^ 32) - 32),
        ("bfi.b32 %r9, %r1, 255, 4, 8;", lambda x: (15 | ((x.view(np.uint32) & 255) << 4)).view(np.int32)),
        ("mul.wide.s32 %rd3, %r1, 3;\ncvt.u32.u64 %r9, %rd3;", lambda x: x * 3),
        ("xor.b32 %r2, %r1, -1;\nnot.b32 %r9, %r2;", lambda x: x),
        ("min.s32 %r2, %r1, 4;\nmin.u32 %r9, %r2, 3;", lambda x: np.where(x < 0, 3, np.minimum(x, 3))),
        ("setp.ge.u32 %p1, %r1, 100;\n@!%p1 bra $L1;\nmov.b32 %r1, 1;\n$L1:\nmov.b32 %r9, %r1;",
         lambda x: np.where((x < 0) | (x >= 100), 1, x)),
    ],
    ids=lambda v: re.split(r"[ ;]", v)[0] if isinstance(v, str) else "",
)  # fmt: skip
def test_instructions_on_whole_numbers(instruction: str, expected: object) -> None:
    assert callable(expected)
    x = np.random.default_rng(0).integers(-200, 200, 32).astype(np.int32)
    np.testing.assert_array_equal(result(LOAD + instruction + STORE, x, dtype=np.int32), expected(x))


def test_threads_that_took_different_branches_meet_again() -> None:
    """Each thread goes round a loop as often as its number says; the sum over a warp is right behind it."""
    body = """
    mov.b32 %r2, 0; mov.b32 %r3, 0;
    $loop:
    setp.ge.u32 %p1, %r2, %t;
    @%p1 bra $done;
    add.s32 %r3, %r3, %r2;
    add.s32 %r2, %r2, 1;
    bra.uni $loop;
    $done:
    shfl.sync.bfly.b32 %r4, %r3, 16, 31, -1;
    add.s32 %r9, %r3, %r4;
    """
    own = np.array([t * (t - 1) // 2 for t in range(32)])
    np.testing.assert_array_equal(result(body + STORE, np.zeros(1), dtype=np.int32), own + np.roll(own, 16))


SHARED = ".shared .align 16 .b8 s[128];"
TURNED = """
    mov.b32 %r5, s; shl.b32 %r6, %t, 2; add.s32 %r7, %r5, %r6;
    st.shared.b32 [%r7], %r1;
    bar.sync 0;
    sub.s32 %r8, 31, %t; shl.b32 %r8, %r8, 2; add.s32 %r8, %r5, %r8;
    ld.shared.b32 %r9, [%r8];
"""


def test_shared_memory_and_barriers() -> None:
    x = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(result(LOAD + TURNED + STORE, x, shared=SHARED), x[::-1])
    with pytest.raises(PtxError, match="race on shared memory: thread 0 reads what thread 31 wrote"):
        result(LOAD + TURNED.replace("bar.sync 0;", "") + STORE, x, shared=SHARED)
    with pytest.raises(PtxError, match=r"race on shared memory: thread .* writes what thread .* writes"):
        result(LOAD + TURNED.replace("shl.b32 %r6, %t, 2", "mov.b32 %r6, 0") + STORE, x, shared=SHARED)
    with pytest.raises(PtxError, match=r"race on shared memory: thread .* writes what thread .* read"):
        again = TURNED + "st.shared.b32 [%r7], %r9;"
        result(LOAD + again + STORE, x, shared=SHARED)
    with pytest.raises(PtxError, match=r"out of bounds: ld.shared.b32 .* of 128 bytes"):
        result(LOAD + TURNED.replace("sub.s32 %r8, 31, %t", "add.s32 %r8, 1, %t") + STORE, x, shared=SHARED)
    with pytest.raises(PtxError, match="misaligned"):
        result(LOAD + TURNED.replace("ld.shared.b32 %r9, [%r8]", "ld.shared.b32 %r9, [%r8+2]") + STORE, x, shared=SHARED)


def test_a_barrier_that_not_all_threads_reach() -> None:
    body = "setp.lt.u32 %p1, %t, 7;\n@%p1 bra $L1;\nbar.sync 0;\n$L1:\nmov.b32 %r9, %r1;"
    with pytest.raises(PtxError, match="divergent barrier: only 25 of 32 threads"):
        result(LOAD + body + STORE, np.zeros(32, np.float32))


def test_device_memory_has_edges() -> None:
    x = np.arange(31, dtype=np.float32)
    with pytest.raises(PtxError, match=r"out of bounds: ld.global.b32 %r1, .%rd1. of 4 bytes"):
        result(LOAD + "mov.b32 %r9, %r1;" + STORE, x)
    with pytest.raises(PtxError, match=r"out of bounds: st.global.b32"):
        result(LOAD + "mov.b32 %r9, %r1;" + STORE, np.zeros(32, np.float32), count=31)
    with pytest.raises(PtxError, match="out of bounds"):
        result("mov.b64 %rd1, 0;\nld.global.b32 %r9, [%rd1];" + STORE, x)
    memory = Memory()
    gone = memory.put(np.zeros(32, np.float32))
    memory.free(gone)
    with pytest.raises(PtxError, match="out of bounds"):
        run(parse(entry(LOAD + "mov.b32 %r9, %r1;" + STORE))["k"], memory, 1, 32, [gone, memory.room(128)])


def test_races_between_blocks() -> None:
    memory = Memory()
    x, y = memory.put(np.zeros(32, np.float32)), memory.room(128)
    with pytest.raises(PtxError, match="race on device memory: thread 32 writes what thread 0 writes"):
        run(parse(entry(LOAD + "mov.b32 %r9, %r1;" + STORE))["k"], memory, 2, 32, [x, y])


def test_copies_under_way_have_not_arrived() -> None:
    body = """
    mov.b32 %r5, s; shl.b32 %r6, %t, 2; add.s32 %r7, %r5, %r6; add.s64 %rd1, %a0, %o;
    cp.async.ca.shared.global [%r7], [%rd1], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    ld.shared.b32 %r9, [%r7];
    """
    x = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(result(body + STORE, x, shared=SHARED), x)
    assert np.isnan(result(body.replace("cp.async.wait_group 0;", "") + STORE, x, shared=SHARED)).all()
    assert np.isnan(result(body.replace("wait_group 0", "wait_group 1") + STORE, x, shared=SHARED)).all()


def test_matrix_instructions() -> None:
    """A product of 16 x 16 by 16 x 8, fragments loaded as PTX's manual draws them."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((16, 8)).astype(np.float16)
    group, within = np.arange(32) // 4, np.arange(32) % 4
    registers = [
        np.stack([a[group + 8 * (n % 2), 2 * within + h + 8 * (n // 2)] for h in range(2)], 1).copy().view(np.uint32)[:, 0]
        for n in range(4)
    ]
    registers += [np.stack([b[2 * within + h + 8 * n, group] for h in range(2)], 1).copy().view(np.uint32)[:, 0] for n in range(2)]
    loads = "add.s64 %rd1, %a0, %o;\n" + "".join(f"ld.global.b32 %r{n}, [%rd1+{128 * n}];\n" for n in range(6))
    fused = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10,%r11,%r12,%r13}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, "
    fused += "{%r9,%r9,%r9,%r9};\n"
    stores = "add.s64 %rd2, %a1, %o;\n" + "".join(f"st.global.b32 [%rd2+{128 * n}], %r{10 + n};\n" for n in range(4))
    found = result("mov.b32 %r9, 0f3F800000;\n" + loads + fused + stores, np.stack(registers), count=128).reshape(4, 32)
    wanted = a.astype(np.float32) @ b.astype(np.float32) + 1
    for n in range(4):
        np.testing.assert_allclose(found[n], wanted[group + 8 * (n // 2), 2 * within + n % 2], rtol=1e-5)


def test_a_kernel_that_never_ends() -> None:
    memory = Memory()
    kernel = parse(entry("$L:\nbra.uni $L;"))["k"]
    with pytest.raises(PtxError, match="k has not ended after 1000 steps"):
        run(kernel, memory, 1, 32, [memory.room(4), memory.room(4)], steps=1000)


def test_how_it_is_started() -> None:
    memory = Memory()
    text = entry("").replace(")\n{", ")\n.maxntid 64, 1, 1\n{", 1)
    with pytest.raises(PtxError, match="64 threads at most, and is started with 128"):
        run(parse(text)["k"], memory, 1, 128, [0, 0])
    with pytest.raises(PtxError, match="takes 2 arguments, not 1"):
        run(parse(text)["k"], memory, 1, 64, [0])
    with pytest.raises(PtxError, match="no entry"):
        parse(HEAD)


@pytest.mark.parametrize(
    "instruction", ["vote.sync.all.pred %p1, %p2, -1;", "dp4a.u32.u32 %r9, %r1, %r1, %r1;", "add.s32 %r9, %r77, 1;"]
)
def test_what_is_not_known_says_so(instruction: str) -> None:
    with pytest.raises(PtxError, match="not known here"):
        result(LOAD + instruction + STORE, np.zeros(32, np.float32))


@pytest.mark.parametrize("level", [0, 3])
def test_a_matrix_product_that_llvm_wrote(level: int) -> None:
    m, n, k, tile = 32, 48, 64, 16
    text = from_llvm.ptx(from_llvm.product(n, k, tile), level=level)
    kernel = parse(text)["product"]
    assert kernel.threads == 256 and kernel.shared_bytes == 2048
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    memory = Memory()
    at = [memory.put(a), memory.put(b), memory.room(4 * m * n)]
    counts = run(kernel, memory, (m // tile) * (n // tile), tile * tile, at)
    np.testing.assert_allclose(memory.get(at[2], np.float32, m * n).reshape(m, n), a @ b, rtol=1e-4, atol=1e-4)
    blocks, warps, rounds = 6, 8, k // tile
    assert counts["fma"] == blocks * warps * k and counts["bar"] + counts["barrier"] == 2 * blocks * warps * rounds
    assert counts["load sectors"] == blocks * warps * rounds * 2 * 4  # two rows of 64 bytes, of A and of B
    assert counts["store sectors"] == blocks * warps * 4 and counts["store wavefronts"] == blocks * warps * rounds * 2
    if level == 0:  # one word at a time: two rows of A in different banks, a row of B
        assert counts["load wavefronts"] == blocks * warps * k * 2


def test_each_barrier_that_is_removed_is_noticed() -> None:
    n, k, tile = 32, 64, 16
    text = from_llvm.ptx(from_llvm.product(n, k, tile), level=0)
    barriers = list(re.finditer(r"\n\s*(bar\.sync|barrier)[^;]*;", text))
    assert len(barriers) == 2
    for one in barriers:
        memory = Memory()
        at = [memory.put(np.ones((n, k), np.float32)), memory.put(np.ones((k, n), np.float32)), memory.room(4 * n * n)]
        with pytest.raises(PtxError, match="race"):
            run(parse(text[: one.start()] + text[one.end() :])["product"], memory, 4, 256, at)


OPERATIONS = ("add", "sub", "mul", "and", "or", "xor", "sdiv", "srem", "udiv", "urem", "shl", "ashr", "lshr")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(0, 1 << 30),
)
def test_arithmetic_that_llvm_wrote(steps: list[tuple[str, int, int]], seed: int) -> None:
    """Random chains of operations on whole numbers, against NumPy; divisors and shifts are made harmless."""
    lines, values = [], ["%x", "%y"]
    x, y = np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, (2, 32)).astype(np.int32)
    known = [x, y]
    for n, (name, a, b) in enumerate(steps):
        first, second = values[a % len(values)], values[b % len(values)]
        p, q = known[a % len(known)], known[b % len(known)]
        if name in ("sdiv", "srem", "udiv", "urem"):
            lines += [f"%d{n} = and i32 {second}, 1023", f"%e{n} = or i32 %d{n}, 1"]
            second, q = f"%e{n}", (q & 1023) | 1
        if name in ("shl", "ashr", "lshr"):
            lines.append(f"%d{n} = and i32 {second}, 31")
            second, q = f"%d{n}", q & 31
        lines.append(f"%v{n} = {name} i32 {first}, {second}")
        values.append(f"%v{n}")
        known.append(_by_numpy(name, p, q))
    ir = f"""
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr addrspace(1) %X, ptr addrspace(1) %Z) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %u = add i32 %t, 32
  %px = getelementptr i32, ptr addrspace(1) %X, i32 %t
  %py = getelementptr i32, ptr addrspace(1) %X, i32 %u
  %pz = getelementptr i32, ptr addrspace(1) %Z, i32 %t
  %x = load i32, ptr addrspace(1) %px
  %y = load i32, ptr addrspace(1) %py
  {chr(10).join(lines)}
  store i32 {values[-1]}, ptr addrspace(1) %pz
  ret void
}}"""
    memory = Memory(1 << 18)
    out = memory.room(128)
    run(parse(from_llvm.ptx(ir))["k"], memory, 1, 32, [memory.put(np.stack([x, y])), out])
    np.testing.assert_array_equal(memory.get(out, np.int32, 32), known[-1])


def _by_numpy(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    p, q = a.view(np.uint32), b.view(np.uint32)
    with np.errstate(all="ignore"):
        if name in ("sdiv", "srem"):
            whole = np.trunc(a.astype(np.float64) / b).astype(np.int64)
            return (whole if name == "sdiv" else a - whole * b).astype(np.int32)
        if name in ("udiv", "urem", "lshr"):
            return {"udiv": p // q, "urem": p % q, "lshr": p >> q}[name].view(np.int32)
        plain = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or}
        plain |= {"xor": np.bitwise_xor, "shl": np.left_shift, "ashr": np.right_shift}
        return plain[name](a, b)
