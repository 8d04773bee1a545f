"""IR text to machine code: results, errors, what the passes leave alone, and memory."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import os
import threading
import time
from pathlib import Path

import pytest
from tests.runtime.kernels import linked

from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.errors import InternalError, UserError
from tensorsmith.runtime.device import Loaded, device_of
from tensorsmith.targets.target import native

INCREMENT = """
define i64 @increment(i64 %x) {
  %y = add i64 %x, 1
  ret i64 %y
}
"""

SUM_OF_FOUR = """
define float @total(ptr %p) {
entry:
  %slot = alloca float, align 4
  store float 0.0, ptr %slot
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr float, ptr %p, i64 %i
  %v = load float, ptr %at
  %old = load float, ptr %slot
  %new = fadd float %old, %v
  store float %new, ptr %slot
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 4
  br i1 %more, label %loop, label %done
done:
  %result = load float, ptr %slot
  ret float %result
}
"""


def integer_function(module: Loaded, name: str):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(module.address(name))


def test_builds_and_runs():
    module = linked(INCREMENT, native())
    assert integer_function(module, "increment")(41) == 42
    assert module.code.seconds.keys() == {"parse", "passes", "emit"} and min(module.code.seconds.values()) > 0


def test_texts_are_of_the_optimised_code():
    module = linked(SUM_OF_FOUR, native())
    assert "@total" in module.code.source("llvm") and "alloca" not in module.code.source("llvm")
    assert "total" in module.code.source("asm")


@pytest.mark.parametrize("passes", [None, "", "sroa,newgvn,instcombine,simplifycfg", "simplify-1", "simplify-2"])
def test_any_list_of_passes_gives_the_same_answer(passes):
    module = linked(SUM_OF_FOUR, native(), passes=passes)
    data = (ctypes.c_float * 4)(1, 2, 3, 4)
    assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p)(module.address("total"))(ctypes.addressof(data)) == 10.0


def test_loops_are_neither_unrolled_nor_vectorised():
    text = linked(SUM_OF_FOUR, native()).code.source("llvm")
    assert text.count("fadd") == 1
    assert "x float>" not in text


def test_always_inline_helpers_disappear():
    helper = "define internal i64 @helper(i64 %x) alwaysinline {\n  %y = mul i64 %x, 3\n  ret i64 %y\n}\n"
    user = "define i64 @user(i64 %x) {\n  %y = call i64 @helper(i64 %x)\n  ret i64 %y\n}\n"
    module = linked(helper + user, native())
    assert "call" not in module.code.source("llvm")
    assert module.code.symbols == {"user"}
    assert integer_function(module, "user")(14) == 42


@pytest.mark.skipif(not native().is_x86, reason="needs x86")
def test_code_with_halves_brings_the_conversions_that_the_machine_lacks():
    without = dataclasses.replace(native(), features=native().features.replace("+f16c", "-f16c"))
    halves = (
        "define void @square(ptr %p) {\n  %x = load half, ptr %p\n  %y = fmul half %x, %x\n  store half %y, ptr %p\n  ret void\n}\n"
    )
    module = linked(halves, without)
    assert module.code.symbols == {"square"}
    data = (ctypes.c_uint16 * 1)(0x4200)  # 3
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(module.address("square"))(ctypes.addressof(data))
    assert data[0] == 0x4880  # 9
    assert "__truncsfhf2" not in linked(INCREMENT, without).code.source("llvm")


def test_syntax_error_shows_the_lines_around_it():
    with pytest.raises(InternalError, match="undefined value '%z'") as raised:
        linked("define i64 @f(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %z\n}\n", native())
    assert "3 |   ret i64 %z" in str(raised.value)


def test_invalid_module_is_refused():
    text = "define i64 @f(i64 %x) {\n  br label %a\na:\n  %y = add i64 %z, 1\n  %z = add i64 %x, 1\n  ret i64 %y\n}\n"
    with pytest.raises(InternalError, match="does not dominate"):
        linked(text, native())


def test_missing_function_is_named():
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(InternalError, match="no_such_function"):
        linked(text, native())


def test_unknown_symbol_and_unknown_pass():
    with pytest.raises(InternalError, match="it has increment"):
        linked(INCREMENT, native()).address("decrement")
    with pytest.raises(UserError, match="no pass 'vectorise'"):
        linked(INCREMENT, native(), passes="sroa,vectorise")


def test_code_for_another_machine_can_be_read_but_not_run():
    other = "aarch64-unknown-linux-gnu" if native().is_x86 else "x86_64-unknown-linux-gnu"
    target = dataclasses.replace(native(), triple=other, cpu="", features="")
    code = compile_ir(INCREMENT, target)
    assert code.symbols == {"increment"} and "increment" in code.source("asm")
    with pytest.raises(UserError, match=rf"code was compiled for .* \({other}\), this is .* \({native().triple}\)"):
        device_of("cpu").link(code)


def test_dropped_modules_are_freed():
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs Linux's /proc")

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def build_many(count: int) -> None:
        for n in range(count):
            assert integer_function(linked(INCREMENT, native()), "increment") is not None, n

    build_many(200)
    before = resident()
    build_many(300)
    assert resident() - before < 300 * 16_000  # 1.5 KB each; a pass manager or a library kept per module is 20 KB


def test_modules_outlive_each_other_in_any_order():
    modules = [linked(INCREMENT, native()) for _ in range(150)]
    for n in range(0, 150, 2):
        modules[n] = None
    assert all(integer_function(module, "increment")(1) == 2 for module in modules if module is not None)


def test_several_threads_build_at_once():
    right = []

    def loop() -> None:
        for _ in range(100):
            module = linked(INCREMENT, native())
            right.append(integer_function(module, "increment")(1) == 2)

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 400 and all(right)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_can_build_although_its_parent_was_building():
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            linked(SUM_OF_FOUR, native())

    busy = threading.Thread(target=loop)
    busy.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                module = linked(INCREMENT, native())
                os._exit(0 if integer_function(module, "increment")(1) == 2 else 1)
            deadline = time.monotonic() + 300
            while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.005)
            if done[0] == 0:
                os.kill(child, 9)
                os.waitpid(child, 0)
            assert done == (child, 0), "the child hangs or fails"
    finally:
        stop.set()
        busy.join()
