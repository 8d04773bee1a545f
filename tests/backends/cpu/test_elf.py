"""Our linker of x86-64 objects: calls, constants, tables and variables are where the code looks for them."""

from __future__ import annotations

import ctypes
import platform
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tensorsmith.backends.cpu import elf, symbols
from tensorsmith.backends.cpu.link import link
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.errors import InternalError
from tensorsmith.runtime.built import Code
from tensorsmith.targets.target import native

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the linker knows x86-64 alone")

TEXT = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40], align 32
@pointers = internal constant [2 x ptr] [ptr @first, ptr @second]
@counter = internal global i64 5
@zeros = internal global [4096 x i64] zeroinitializer, align 64
declare void @memset(ptr, i32, i64)
declare double @fmod(double, double)
define internal i64 @first(i64 %x) noinline { %y = add i64 %x, 1  ret i64 %y }
define internal i64 @second(i64 %x) noinline { %y = mul i64 %x, 3  ret i64 %y }
define i64 @looked_up(i64 %n) {
  %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %n
  %v = load i64, ptr %at
  ret i64 %v
}
define i64 @through_a_pointer(i64 %which, i64 %x) {
  %at = getelementptr [2 x ptr], ptr @pointers, i64 0, i64 %which
  %f = load ptr, ptr %at
  %v = call i64 %f(i64 %x)
  ret i64 %v
}
define i64 @count() {
  %v = load volatile i64, ptr @counter
  %more = add i64 %v, 1
  store volatile i64 %more, ptr @counter
  %at = getelementptr [4096 x i64], ptr @zeros, i64 0, i64 4095
  %z = load volatile i64, ptr %at
  %sum = add i64 %more, %z
  ret i64 %sum
}
define double @remainder(double %a, double %b) { %r = call double @fmod(double %a, double %b)  ret double %r }
"""


@pytest.fixture(scope="module")
def code() -> Code:
    return compile_ir(TEXT, native())


def function(linked: elf.Linked, name: str, result: type, *arguments: type):
    return ctypes.CFUNCTYPE(result, *arguments)(linked.address(name))


def test_everything_is_found(code: Code) -> None:
    linked = link(code)
    assert isinstance(linked, elf.Linked)
    whole = ctypes.c_int64
    assert [function(linked, "looked_up", whole, whole)(n) for n in range(4)] == [10, 20, 30, 40]
    assert [function(linked, "through_a_pointer", whole, whole, whole)(n, 7) for n in range(2)] == [8, 21]
    assert [function(linked, "count", whole)() for _ in range(3)] == [6, 7, 8]
    assert function(link(code), "count", whole)() == 6  # each has variables of its own
    assert function(linked, "remainder", ctypes.c_double, ctypes.c_double, ctypes.c_double)(7.5, 2.0) == 1.5


def test_code_cannot_be_written(code: Code) -> None:
    linked = link(code)
    at = linked.address("looked_up")
    rights = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        if begin <= at < end:
            rights.append(line.split()[1])
    assert rights == ["r-xp"]


def test_what_is_not_there(code: Code) -> None:
    with pytest.raises(InternalError, match="no function 'missing' in the module; it has count, "):
        link(code).address("missing")
    with pytest.raises(InternalError, match="calls functions that nobody brings: elsewhere"):
        link(compile_ir("declare void @elsewhere()\ndefine void @f() { call void @elsewhere()  ret void }", native()))


def changed(code: Code, kind: int) -> Code:
    """The same object, with its first relocation of code of another kind."""
    data = bytearray(code.data)
    for s in elf._sections(bytes(data)):
        if s.kind == elf._RELOCATIONS:
            struct.pack_into("<I", data, s.offset + 8, kind)
            return replace(code, data=bytes(data))
    raise AssertionError("no relocation")


def test_an_unknown_relocation_is_refused(code: Code) -> None:
    with pytest.raises(InternalError, match="a relocation of kind 99"):
        link(changed(code, 99))


@pytest.mark.parametrize("length", [40, 64, 200])
def test_an_object_that_is_cut_short(code: Code, length: int) -> None:
    with pytest.raises(InternalError, match=r"ELF object|linking generated code failed"):
        link(replace(code, data=code.data[:length]))


def test_memory_is_given_back(code: Code) -> None:
    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    before = mappings()
    for _ in range(200):
        link(code)
    assert mappings() < before + 50


def test_the_other_linker_gives_the_same(code: Code) -> None:
    from tensorsmith.backends.cpu import jitlink

    linked = jitlink.link(code, {name: symbols.outside()[name] for name in symbols.undefined(code.data)})
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(linked.address("looked_up"))(2) == 30
