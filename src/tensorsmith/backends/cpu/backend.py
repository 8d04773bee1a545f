"""The record of CPUs."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tensorsmith.backends.backend import Backend, KernelCode, later
from tensorsmith.backends.cpu import symbols
from tensorsmith.backends.cpu.codegen.generate import Generated
from tensorsmith.backends.cpu.codegen.generate import generate as generate_ir
from tensorsmith.backends.cpu.compilers import several
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.device import DEVICE
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.backends.cpu.rules import ANSOR, DEFAULT
from tensorsmith.backends.cpu.tactics import CpuTactics
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.program.ir import Program


def generate(program: Program, target: CpuTarget) -> KernelCode:
    """The object code of a program."""
    return begin(program, target)()


def begin(program: Program, target: CpuTarget) -> Callable[[], KernelCode]:
    """The text of a program's code; what makes object code of it is nearly all LLVM's work, during which Python can do its own."""
    return functools.partial(_compiled, generate_ir(program, target), target)


def _compiled(made: Generated, target: CpuTarget) -> KernelCode:
    """The object code of IR. It calls nothing but what `symbols` allows."""
    code = compile_ir(made.ir, target)
    if code.data.startswith(symbols.ELF):  # the linkers of other systems check for themselves
        symbols.check(symbols.undefined(code.data))
    return KernelCode(code, made.scratch_bytes, made.scratch_bytes_per_thread, made.replaceable)


BACKEND = Backend(
    kind="cpu",
    target=CpuTarget,
    device=DEVICE,
    rule_sets={"default": DEFAULT, "ansor": ANSOR},
    default_candidate=default_candidate,
    tactics=CpuTactics,
    generate=generate,
    begin=begin,
    compilers=several,
    schema=SCHEMA,
    extract_rows=later("tensorsmith.backends.cpu.features.batch", "extract_rows"),
    estimated_seconds=later("tensorsmith.backends.cpu.prior", "estimated_seconds"),
    explain=later("tensorsmith.backends.cpu.explain", "explain"),
    expected_roof=later("tensorsmith.backends.cpu.outlook", "expected_roof"),
)
