"""Instructions that were passed are not written again, and what a loop does not change goes in front of it."""

from __future__ import annotations

import ctypes
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.kernels import linked

import tensorsmith as ts
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, i64
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.llvm import PASSES, TIDY, TIDY_PASSES, compile_ir
from tensorsmith.lang.define import compute, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as total
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.rewrites.formulations import likely
from tensorsmith.targets.target import native

ZEN = ts.Target.named("znver4")
A, B = Value("%a", "i64"), Value("%b", "i64")


def function() -> Function:
    return Function("define void @f(i64 %a, i64 %b, ptr %p)", hoists=True)


def add(f: Function, x: Value, y: Value) -> Value:
    return f.op(f"add i64 {x.text}, {y.text}", "i64")


def written(f: Function, text: str) -> int:
    return f.text().count(text)


# -- what is written once ----------------------------------------------------------------------------------------------


def test_an_instruction_that_was_passed_is_not_written_again():
    f = function()
    assert add(f, A, B) == add(f, A, B)
    assert written(f, "add i64 %a, %b") == 1


def test_the_same_bits_can_be_asked_for_as_another_type():
    f = function()
    signed, unsigned = f.op("add i32 1, 2", "i32"), f.op("add i32 1, 2", "u32")
    assert signed.text == unsigned.text and (signed.dtype, unsigned.dtype) == ("i32", "u32")


def test_what_a_branch_computes_is_not_there_behind_it_nor_in_the_other():
    f = function()
    found: list[Value] = []

    def branch() -> list[Value]:
        found.append(add(f, A, B))
        return []

    f.choose(Value("true", "bool"), branch, branch)
    found.append(add(f, A, B))
    assert len({v.text for v in found}) == 3
    assert add(f, A, B) == found[-1]


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_was_decided_is_not_taken_again(taken):
    f = function()
    condition = f.op("icmp slt i64 %a, %b", "bool")
    ways: list[str] = []

    def way(name: str) -> list[Value]:
        ways.append(name)
        return []

    def again() -> list[Value]:
        return f.choose(condition, lambda: way("yes"), lambda: way("no"))

    def nothing() -> list[Value]:
        return []

    f.choose(condition, again if taken else nothing, nothing if taken else again)
    assert ways == ["yes" if taken else "no"] and written(f, "br i1") == 1
    again()
    assert ways[1:] == ["yes", "no"] and written(f, "br i1") == 2


def test_loads_and_calls_are_written_each_time():
    f = function()
    assert f.op("load i64, ptr %p, align 8", "i64") != f.op("load i64, ptr %p, align 8", "i64")
    assert f.op('call i64 asm "", "=r,0"(i64 %a)', "i64") != f.op('call i64 asm "", "=r,0"(i64 %a)', "i64")


def test_nothing_is_known_in_a_block_that_others_jump_to():
    f = function()
    before = add(f, A, B)
    f.jump("elsewhere")
    f.start("elsewhere")
    assert add(f, A, B) != before


# -- in front of loops -------------------------------------------------------------------------------------------------


def body_of(f: Function) -> str:
    """What is between the labels of the only loop."""
    return re.split(r"\nb\d+:", f.text())[1]


def test_what_a_loop_does_not_change_goes_in_front_of_it():
    f = function()

    def step(n: Value, _: list[Value]) -> list[Value]:
        add(f, add(f, A, B), n)
        return []

    f.loop(i64(0), i64(9), 1, [], step)
    assert "add i64 %a, %b" not in body_of(f) and written(f, "add i64 %a, %b") == 1


def test_it_goes_in_front_of_all_loops_that_do_not_change_it_and_of_no_other():
    f = function()
    outer: list[Value] = []

    def step(n: Value, _: list[Value]) -> list[Value]:
        def inside(m: Value, _: list[Value]) -> list[Value]:
            add(f, A, B), add(f, A, n), add(f, A, m)
            return []

        outer.append(n)
        f.loop(i64(0), i64(9), 1, [], inside)
        return []

    f.loop(i64(0), i64(9), 1, [], step)
    lines = f.text().splitlines()
    places = [next(n for n, line in enumerate(lines) if line.endswith(f"add i64 %a, {x}")) for x in ("%b", outer[0].text)]
    labels = [n for n, line in enumerate(lines) if re.match(r"b\d+:", line)]
    assert places[0] < labels[0] < places[1] < labels[1]


@pytest.mark.parametrize(("divisor", "goes"), [("%b", False), ("7", True)])
def test_a_division_by_what_may_be_zero_stays(divisor, goes):
    f = function()

    def step(n: Value, _: list[Value]) -> list[Value]:
        f.op(f"sdiv i64 %a, {divisor}", "i64")
        return []

    f.loop(i64(0), i64(9), 1, [], step)
    assert ("sdiv" not in body_of(f)) == goes


def test_only_who_asks_for_it_gets_it():
    f = Function("define void @f(i64 %a, i64 %b)")
    f.loop(i64(0), i64(9), 1, [A], lambda n, _: [add(f, A, B)])
    assert "add i64 %a, %b" in body_of(f)


# -- random code -------------------------------------------------------------------------------------------------------

OPS = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "xor": lambda x, y: x ^ y}
LIMIT = (1 << 63, 1 << 64)

statements = st.recursive(
    st.tuples(st.just("op"), st.sampled_from(sorted(OPS)), st.integers(0, 7), st.integers(0, 7)),
    lambda inner: st.one_of(
        st.tuples(st.just("loop"), st.integers(0, 3), st.booleans(), st.lists(inner, min_size=1, max_size=4)),
        st.tuples(st.just("if"), st.integers(0, 7), st.lists(inner, max_size=3), st.lists(inner, max_size=3)),
    ),
    max_leaves=24,
)


def wrapped(n: int) -> int:
    return (n + LIMIT[0]) % LIMIT[1] - LIMIT[0]


def run(program: list, values: list[int], state: int) -> int:
    """What a program makes of its state: the meaning of `write`."""
    values = list(values)
    for statement in program:
        if statement[0] == "op":
            _, op, x, y = statement
            values.append(wrapped(OPS[op](values[x % len(values)], values[y % len(values)])))
            state = wrapped(3 * state + values[-1])
        elif statement[0] == "loop":
            _, count, runs, inner = statement
            for n in range(max(count, 1) if runs else count):
                state = run(inner, [*values, n, state], state)
        else:
            _, x, yes, no = statement
            state = run(yes if values[x % len(values)] >= 0 else no, values, state)
        values.append(state)
    return state


def write(f: Function, program: list, values: list[Value], state: Value) -> Value:
    values = list(values)
    for statement in program:
        if statement[0] == "op":
            _, op, x, y = statement
            values.append(f.op(f"{op} i64 {values[x % len(values)].text}, {values[y % len(values)].text}", "i64"))
            tripled = f.op(f"mul i64 {state.text}, 3", "i64")
            state = f.op(f"add i64 {tripled.text}, {values[-1].text}", "i64")
        elif statement[0] == "loop":
            _, count, runs, inner = statement

            def step(n: Value, now: list[Value], inner: list = inner, values: list[Value] = values) -> list[Value]:
                return [write(f, inner, [*values, n, now[0]], now[0])]

            end = i64(max(count, 1) if runs else count)
            (state,) = f.loop(i64(0), end, 1, [state], step, runs=runs)
        else:
            _, x, yes, no = statement
            positive = f.op(f"icmp sge i64 {values[x % len(values)].text}, 0", "bool")
            (state,) = f.choose(
                positive,
                lambda yes=yes, values=values, state=state: [write(f, yes, values, state)],
                lambda no=no, values=values, state=state: [write(f, no, values, state)],
            )
        values.append(state)
    return state


@settings(max_examples=40, deadline=None)
@given(program=st.lists(statements, min_size=1, max_size=5), a=st.integers(-9, 9), b=st.integers(-9, 9))
def test_code_means_what_it_says_wherever_its_instructions_went(program, a, b):
    expected = run(program, [a, b], a)
    for hoists in (False, True):
        f = Function("define void @f(i64 %a, i64 %b, ptr %p)", hoists=hoists)
        f.line(f"store {write(f, program, [A, B], A)}, ptr %p, align 8")
        module = linked(f.text(), native())  # LLVM checks that every value was computed where it is used
        result = ctypes.c_int64()
        ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(module.address("f"))(a, b, ctypes.addressof(result))
        assert result.value == expected


# -- tidy texts --------------------------------------------------------------------------------------------------------


def text_of(w, target=ZEN) -> str:
    return generate(lower(default_candidate(likely(w).workload, target)), target).ir


def hot_loops(text: str, passes: str) -> list[tuple[int, int]]:
    """(multiply-adds, instructions) of the loops that multiply and have none inside."""
    lines = compile_ir(text, ZEN, passes=passes).source("asm").splitlines()
    places = {line.rstrip(":"): n for n, line in enumerate(lines) if re.match(r"\.LBB\w+:", line)}
    jumps = [(n, re.match(r"\s+j\w+\s+(\.LBB\w+)", line)) for n, line in enumerate(lines)]
    spans = [(places[m[1]], n) for n, m in jumps if m and places.get(m[1], n) < n]
    found = []
    for start, end in spans:
        if not any((s, e) != (start, end) and start <= s and e <= end for s, e in spans):
            code = [x for x in lines[start : end + 1] if re.match(r"\t[a-z]", x)]
            found.append((sum("fmadd" in x for x in code), len(code)))
    return sorted(x for x in found if x[0])


@pytest.mark.parametrize("name", ["C2D-3", "GMM-1", "C1D-2", "DIL-1"])
def test_a_tidy_text_needs_few_passes(name):
    text = text_of(catalogue.get(f"{name}-b1").workload())
    assert text.startswith(TIDY)
    few, all_of_them = hot_loops(text, TIDY_PASSES), hot_loops(text, PASSES)
    assert few and [x[0] for x in few] == [x[0] for x in all_of_them]
    assert sum(x[1] for x in few) <= 1.01 * sum(x[1] for x in all_of_them)


@pytest.mark.parametrize("name", ["DEP-2", "T2D-4"])
def test_conditions_that_always_hold_are_not_tested(name):
    """Rows of a window that never leave the image, and columns that do: LLVM would find out from the loops around."""
    text = text_of(catalogue.get(f"{name}-b1").workload())
    few, all_of_them = (compile_ir(text, ZEN, passes=passes).source("llvm").count(" icmp ") for passes in (TIDY_PASSES, PASSES))
    assert few <= all_of_them


def test_what_a_loop_loads_again_and_again_is_not_tidy():
    x, scale = placeholder((4096, 512), name="X"), placeholder((4096,), name="S")
    rows = workload([x, scale, compute((4096, 512), lambda i, j: x[i, j] * scale[i], name="Y")])
    assert not text_of(rows).startswith(TIDY)
    columns = placeholder((512,), name="S")
    along = workload([x, columns, compute((4096, 512), lambda i, j: x[i, j] * columns[j], name="Y")])
    assert text_of(along).startswith(TIDY)


def test_functions_that_are_inlined_are_not_tidy():
    x = placeholder((64, 64), name="X")
    assert not text_of(workload([x, compute((64, 64), lambda i, j: ts.exp(x[i, j]), name="Y")])).startswith(TIDY)


@pytest.mark.parametrize("name", ["cortex-a53", "rv64gcv", "wasm32"])
def test_code_for_other_machines_goes_through_all_passes(name):
    x, w = placeholder((8, 16), name="X"), placeholder((16, 32), name="W", constant=True)
    k = reduce_axis(16, name="k")
    product = workload([x, w, compute((8, 32), lambda i, j: total(x[i, k] * w[k, j], axis=k), name="Y")])
    assert not text_of(product, ts.Target.named(name)).startswith(TIDY)
