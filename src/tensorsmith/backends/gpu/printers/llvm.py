"""Kernels as LLVM's text, and by LLVM as that of GPUs: PTX, AMDGCN, SPIR-V.

`writer.py` writes the kernels; here LLVM makes code of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from tensorsmith.backends.gpu.printers.machines import Machine
from tensorsmith.backends.gpu.printers.writer import Writer
from tensorsmith.backends.gpu.simt.ir import Kernel
from tensorsmith.errors import InternalError


def ir(kernels: Sequence[Kernel], machine: Machine) -> str:
    """The text of kernels for one of LLVM's targets."""
    helpers: dict[str, str] = {}
    declarations: set[str] = set(machine.declarations)
    shared, functions = [], []
    for kernel in kernels:
        writer = Writer(kernel, machine, helpers, declarations)
        functions.append(writer.text())
        shared += writer.shared
    head = [f'target triple = "{machine.triple}"', *shared, *sorted(declarations)]
    return "\n\n".join(["\n".join(head), *helpers.values(), *functions, *machine.flags]) + "\n"


def assembly(kernels: Sequence[Kernel], machine: Machine, cpu: str = "") -> str:
    """What LLVM makes of it, as text: PTX for an architecture such as "sm_80"."""
    built, module = _compiled(kernels, machine, cpu)
    return str(built.emit_assembly(module))


def object_file(kernels: Sequence[Kernel], machine: Machine, cpu: str = "") -> bytes:
    """The same as an object that is still to be linked."""
    built, module = _compiled(kernels, machine, cpu)
    return bytes(built.emit_object(module))


def _compiled(kernels: Sequence[Kernel], machine: Machine, cpu: str) -> tuple[Any, Any]:
    """LLVM's machine, and the module as its passes leave it."""
    built = (_new_machine if machine.used_once else _kept_machine)(machine, cpu or machine.cpu)
    try:
        module = llvm.parse_assembly(ir(kernels, machine), llvm.create_context())
        module.triple, module.data_layout = machine.triple, str(built.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the generated kernel: {str(error)[:400]}") from None
    options = llvm.create_pipeline_tuning_options(speed_level=machine.level)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = options.loop_interleaving = False
    builder = llvm.create_pass_builder(built, options)
    builder.getModulePassManager().run(module, builder)
    return built, module


def _new_machine(machine: Machine, cpu: str) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    known = dict(machine.features)
    features = known.get(cpu, known.get("", ""))
    return llvm.Target.from_triple(machine.triple).create_target_machine(cpu=cpu, features=features, opt=3)


_kept_machine = functools.cache(_new_machine)
