"""Instructions for products of small integers: what they mean, that machines have them, and that kernels use them."""

from __future__ import annotations

import ctypes
import itertools
import re

import numpy as np
import pytest
from tests.backends.cpu.bytes import PAIRS, built_by_meaning, convolution, matmul, words

import tensorsmith as ts
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.instructions import INSTRUCTIONS, SMALL, Instruction, by_meaning, dots, pairs
from tensorsmith.backends.cpu.link import link
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.backends.cpu.products import group_size, groups_pay, widens
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.build import build
from tensorsmith.lang.small import HIGH, LOW
from tensorsmith.program.lower import lower
from tensorsmith.targets.target import native

TYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, SMALL: np.int8}
INTEGERS = [i for i in INSTRUCTIONS if i.sums == "i32"]  # of the others, `test_bf16_dots.py`
LIMITS = {kind: (LOW, HIGH) if kind == SMALL else (np.iinfo(t).min, np.iinfo(t).max) for kind, t in TYPES.items()}


def module(instruction: Instruction) -> str:
    """One call of the instruction on memory."""
    r, first, o = instruction.result, instruction.first, instruction.operand
    given = ([f"{r} %c"] if instruction.adds else []) + [f"{first} %a", f"{o} %b"]
    lines = [f"%c = load {r}, ptr %pc, align 1", f"%a = load {first}, ptr %pa, align 1", f"%b = load {o}, ptr %pb, align 1"]
    lines += [f'%r = call {r} @"{instruction.function}"({", ".join(given)})', f"store {r} %r, ptr %pc, align 1", "ret void"]
    body = "\n".join(f"  {line}" for line in lines)
    declared = "".join(f"{line}\n" for line in instruction.declarations)
    return f"{declared}{instruction.definition()}\ndefine void @f(ptr %pc, ptr %pa, ptr %pb) {{\n{body}\n}}\n"


def results(text: str, instruction: Instruction, seed: int, small: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """What code gives for random numbers, and what NumPy does; if not `small`, with numbers that are not where they should be."""
    rng = np.random.default_rng(seed)
    operands = []
    for kind in instruction.types:
        low, high = LIMITS[kind] if small else LIMITS["i8" if kind == SMALL else kind]
        found = rng.integers(low, high + 1, instruction.lanes * (2 if kind == "i16" else 4))
        ends = rng.choice([low, high], found.shape)
        operands.append(np.where(rng.random(found.shape) < (0.5 if seed % 2 else 0.1), ends, found).astype(TYPES[kind]))
    start = rng.integers(-(2**31), 2**31, instruction.lanes).astype(np.int32)
    if instruction.matrix:  # 2 x 8 by 8 x 2 in every four lanes, with the same two rows
        rows, columns = (x.astype(np.int64).reshape(-1, 2, 8) for x in operands)
        products = (rows[:1] @ columns.transpose(0, 2, 1)).reshape(instruction.lanes, 1)
    else:
        products = (operands[0].astype(np.int64) * operands[1]).reshape(instruction.lanes, -1, 2).sum(axis=2)
    if instruction.pairs is not None:
        products = np.clip(products, -32768, 32767)  # of small ones, nothing
    wanted = (products.sum(axis=1) + (start if instruction.adds else 0)).astype(np.int32)
    code = link(compile_ir(text, native()))
    got = start.copy()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address("f"))
    call(got.ctypes.data, operands[0].ctypes.data, operands[1].ctypes.data)
    return got, wanted


@pytest.mark.parametrize("instruction", INTEGERS, ids=lambda i: i.function)
def test_the_meaning_is_a_sum_of_products(instruction):
    text = by_meaning(module(instruction))
    assert "declare" not in text  # nothing is left that this machine may lack
    for seed in range(4):
        for small in (True, False):
            got, wanted = results(text, instruction, seed, small)
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("instruction", INTEGERS, ids=lambda i: i.function)
def test_the_instruction_does_what_it_means(instruction):
    """Where this machine has it."""
    if instruction not in (*dots(native()), *pairs(native())) and instruction.pairs not in pairs(native()):
        pytest.skip(f"{native().name} has no {instruction.name}")
    for seed in range(4):
        for small in (True, False):
            got, wanted = results(module(instruction), instruction, seed, small)
            np.testing.assert_array_equal(got, wanted)


#: what products of two types are made of on machines by name
EXPECTED = [
    ("znver4", "u8", "i8", "vpdpbusd"),
    ("znver4", "i8", "i8", "vpdpbusd"),
    ("znver4", "u8", "u8", "vpdpbusd"),
    ("sapphirerapids", "i8", "u8", "vpdpbusd"),
    ("skylake-avx512", "u8", "i8", "vpmaddwd"),
    ("x86-64-v3", "u8", "i8", "vpmaddwd"),
    ("x86-64-v3", "i8", "i8", "vpmaddwd"),
    ("x86-64-v2", "u8", "i8", "pmaddwd"),
    ("neoverse-n1", "i8", "i8", "sdot"),
    ("neoverse-n1", "u8", "u8", "udot"),
    ("neoverse-n1", "u8", "i8", "sdot"),
    ("neoverse-v2", "i8", "i8", "smmla"),
    ("neoverse-v2", "u8", "u8", "ummla"),
    ("neoverse-v2", "u8", "i8", "usmmla"),
    ("neoverse-v2", "i8", "u8", "usdot"),
    ("neoverse-v1", "u8", "i8", "usmmla"),
    ("neoverse-v1", "i8", "u8", "usdot"),
    ("a64fx", "i8", "i8", "sdot"),
    ("a64fx", "u8", "i8", "sdot"),
]


def innermost(assembly: str, instruction: str) -> list[str]:
    """The lines of the loop that has most of an instruction."""
    blocks = re.split(r"^\.?LBB[0-9_]+:", assembly, flags=re.MULTILINE)
    return max(blocks, key=lambda block: block.count(f"\t{instruction}\t")).splitlines()


def spilled(loop: list[str]) -> list[str]:
    """Lines that store vectors on the stack, or add what lies there. (A constant may be read from it.)"""
    stored = [line for line in loop if re.search(r"\tv?mov\w+\t%\w+, -?\d*\(%rsp\)|\tst[rp]\t.*\[sp", line)]
    return stored + [line for line in loop if "add" in line and ("(%rsp)" in line or "[sp" in line)]


@pytest.mark.parametrize("name, a, b, instruction", EXPECTED, ids=lambda v: str(v))
def test_kernels_use_it_and_keep_their_sums_in_registers(name, a, b, instruction):
    machine = ts.Target.named(name)
    candidate = default_candidate(matmul(64, 256, 192, a, b).workload, machine)
    assembly = compile_ir(generate(lower(candidate), machine).ir, machine).source("asm")
    loop = innermost(assembly, instruction)
    assert sum(f"\t{instruction}\t" in line for line in loop) >= 8
    assert not spilled(loop)


#: machines that multiply pairs of i16 and nothing smaller
PAIRED = ["znver3", "x86-64-v3", "skylake-avx512"]


def hot(case, machine: CpuTarget) -> list[str]:
    """The names of the vector instructions of the hot loop of a default schedule."""
    candidate = default_candidate(case.workload, machine)
    assembly = compile_ir(generate(lower(candidate), machine).ir, machine).source("asm")
    loop = itertools.takewhile(lambda line: not line.startswith("\tj"), innermost(assembly, "vpmaddwd"))
    return [line.split()[0] for line in loop if line.startswith("\tv")]


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("case", [matmul(64, 256, 192, "u8", "i8"), convolution(12, 64, 64, 3, "i8", "i8")], ids=["matmul", "conv"])
def test_pairs_are_stored_so_that_loops_only_multiply_and_add(name, case):
    found = hot(case, ts.Target.named(name))
    products, loads = found.count("vpmaddwd"), [x for x in found if "broadcast" in x or "mov" in x]
    assert products >= 32 and found.count("vpaddd") == products
    assert len(found) == 2 * products + len(loads)  # nothing widens bytes, nothing is spilled
    assert len(loads) <= 0.7 * products


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("a", ["u8", "i8"])
def test_small_weights_are_multiplied_as_bytes(name, a):
    machine = ts.Target.named(name)
    assert machine.multiplies_pairs
    for case in (matmul(64, 256, 192, a, "i8", small_weight=True), convolution(12, 64, 64, 1, a, "i8", small_weight=True)):
        found = hot(case, machine)
        products, moved = found.count("vpmaddubsw"), sum("xor" in x for x in found)
        loads = [x for x in found if "broadcast" in x or "mov" in x]
        assert products >= 32 and found.count("vpmaddwd") == found.count("vpaddd") == products
        assert len(found) == 3 * products + moved + len(loads) and (moved > 0) == (a == "i8")
        assert len(loads) <= 0.75 * products


@pytest.mark.parametrize("name", [*PAIRED, "x86-64-v2"])
def test_what_may_saturate_is_not_used(name):
    """Two weights of 127 times 255 do not fit in 16 bits."""
    machine = ts.Target.named(name)
    for a, b, small in (("u8", "i8", False), ("i8", "i8", False), ("u8", "u8", False), ("i8", "u8", False)):
        candidate = default_candidate(matmul(64, 64, 64, a, b, small_weight=small).workload, machine)
        assert "pmaddubsw" not in generate(lower(candidate), machine).ir


@pytest.mark.parametrize("name", ["znver4", "neoverse-n1"])
def test_machines_that_take_any_bytes_have_the_same_code_for_small_ones(name):
    machine = ts.Target.named(name)
    assert not machine.multiplies_pairs
    found = [hot_text(matmul(64, 256, 192, "u8", "i8", small_weight=small), machine) for small in (False, True)]
    assert found[0] == found[1]


def hot_text(case, machine: CpuTarget) -> str:
    candidate = default_candidate(case.workload, machine)
    return compile_ir(generate(lower(candidate), machine).ir, machine).source("asm")


@pytest.mark.parametrize("name", ["znver4", "skylake-avx512", "x86-64-v3", "x86-64-v2", "neoverse-n1", "cortex-a72"])
@pytest.mark.parametrize("a", ["u8", "i8"])
def test_kernels_with_pairs_are_right_by_meaning(name, a, monkeypatch):
    """Where weights are not small, which the definition says they are, they count as zero."""
    machine = ts.Target.named(name, cores=2)
    cases = [matmul(9, 22, 37, a, "i8", small_weight=True), matmul(17, 65, 33, a, "i8", constant=False, small_weight=True)]
    for case in (*cases, convolution(6, 7, 24, 3, a, "i8", fill=100, small_weight=True)):
        candidate = default_candidate(case.workload, machine)
        (got,) = built_by_meaning(candidate, machine, monkeypatch).run(case.arrays).values()
        np.testing.assert_array_equal(got, case.wanted)


@pytest.mark.parametrize("name", ["znver4", "sapphirerapids", "neoverse-n1", "neoverse-v2", "cortex-a53", "cortex-a72"])
def test_other_machines_keep_bytes(name):
    case = matmul(64, 256, 192, "u8", "i8")
    machine = ts.Target.named(name)
    assert not widens(machine, case.workload.stage("C"))
    assert all(r.name != "widen" for r in default_candidate(case.workload, machine).sketch.rewrites)


def test_bytes_that_are_used_once_stay_bytes():
    """A larger copy of a matrix would cost more than it saves, for a vector or two."""
    machine = ts.Target.named("znver3")
    assert [widens(machine, matmul(n, 256, 192, "u8", "i8").workload.stage("C")) for n in (1, 2, 4, 64)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("name", ["native", "x86-64-v3", "x86-64-v2", "neoverse-n1"])
def test_products_of_i16_wrap_around(name, monkeypatch):
    """Two products of -32768 by itself are one more than the largest i32."""
    machine = native() if name == "native" else ts.Target.named(name, cores=2)
    candidate = default_candidate(words(9, 23, 21), machine)
    made = build(candidate, machine) if name == "native" else built_by_meaning(candidate, machine, monkeypatch)
    rng = np.random.default_rng(4)
    for ends in (0.2, 1.0):
        a, b = (rng.integers(-32768, 32768, shape).astype(np.int16) for shape in ((9, 23), (23, 21)))
        a, b = (np.where(rng.random(x.shape) < ends, np.int16(-32768), x) for x in (a, b))
        (got,) = made.run({"A": a, "B": b}).values()
        np.testing.assert_array_equal(got, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))


EVERYWHERE = [
    "znver4",
    "skylake-avx512",
    "x86-64-v3",
    "x86-64-v2",
    "neoverse-n1",
    "neoverse-v1",
    "neoverse-v2",
    "a64fx",
    "cortex-a72",
]


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize("a, b", PAIRS, ids=lambda v: str(v))
def test_kernels_of_other_machines_are_right_by_meaning(name, a, b, monkeypatch):
    machine = ts.Target.named(name, cores=2)
    for case in (matmul(9, 22, 37, a, b, constant=False), matmul(17, 64, 33, a, b, bytes_out=True)):
        candidate = default_candidate(case.workload, machine)
        (got,) = built_by_meaning(candidate, machine, monkeypatch).run(case.arrays).values()
        np.testing.assert_array_equal(got, case.wanted)


def test_machines_without_anything_for_bytes_make_products_one_by_one():
    machine = ts.Target.named("cortex-a53")
    assert not groups_pay(machine, matmul(64, 64, 64, "i8", "i8").workload.stage("C"))
    assert " group " not in str(default_candidate(matmul(64, 64, 64, "i8", "i8").workload, machine))
    assert " group k.1" in str(default_candidate(matmul(64, 64, 64, "i8", "i8").workload, ts.Target.named("cortex-a55")))


@pytest.mark.parametrize("name", ["neoverse-v1", "neoverse-v2"])
def test_two_rows_by_two_columns_where_there_are_two_rows(name):
    """A vector times a matrix has one; of rows with a sign and columns without there is no such instruction."""
    machine = ts.Target.named(name)
    sizes = {
        (rows, a, b): group_size(machine, matmul(rows, 64, 64, a, b).workload.stage("C")) for rows in (1, 2, 9) for a, b in PAIRS
    }
    assert {size for (rows, *_), size in sizes.items() if rows == 1} == {None}
    assert {(a, b) for (rows, a, b), size in sizes.items() if rows > 1 and size == 8} == {("i8", "i8"), ("u8", "u8"), ("u8", "i8")}
    narrow, shallow = matmul(9, 64, 3, "i8", "i8"), matmul(9, 4, 64, "i8", "i8")
    assert group_size(machine, narrow.workload.stage("C")) is None and group_size(machine, shallow.workload.stage("C")) is None
    assert group_size(ts.Target.named("neoverse-n1"), matmul(9, 64, 64, "i8", "i8").workload.stage("C")) is None


@pytest.mark.parametrize("rows", [2, 3, 6, 7])
def test_a_row_without_a_partner_is_multiplied_otherwise(rows, monkeypatch):
    machine = ts.Target.named("neoverse-v2", cores=2)
    case = matmul(rows, 72, 24, "i8", "i8")
    candidate = default_candidate(case.workload, machine)
    text = generate(lower(candidate), machine).ir
    assert "smmla" in text and ("sdot" in text) == bool(rows % 2)
    (got,) = built_by_meaning(candidate, machine, monkeypatch).run(case.arrays).values()
    np.testing.assert_array_equal(got, case.wanted)


def test_avx_vnni_has_no_vectors_of_64_bytes():
    machine = CpuTarget("x86_64-unknown-linux-gnu", "alderlake", "+avx2,+fma,+avxvnni", 32, 16)
    assert {i.lanes for i in dots(machine)} == {4, 8}
