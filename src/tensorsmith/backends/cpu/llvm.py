"""LLVM IR text to machine code for any CPU that LLVM knows: what is asked of `machine_code.py`, which does it."""

from __future__ import annotations

import re

import llvmlite.binding as llvm

from tensorsmith.backends.cpu.compilers import compiled, compiler
from tensorsmith.backends.cpu.fused_ir import fused_ir
from tensorsmith.backends.cpu.half_ir import half_ir
from tensorsmith.backends.cpu.machine_code import FUNCTION_PIPELINES, MODULE_PASSES, Machine
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import InternalError, UserError
from tensorsmith.runtime.built import Code

#: The passes of `compile_ir`, in order. Generated code comes vectorised and unrolled, so LLVM's loop and SLP vectorisers
#: and its unroller never run. llvmlite has no pass of its own for early-cse, LICM or indvars; they come with LLVM's
#: function simplification pipeline, of which level 1 is the smallest.
PASSES = ",".join(
    (
        "always-inline",  # helper functions marked `alwaysinline` (vector math); free when there are none
        "simplify-1",  # sroa (register tiles), early-cse, simplifycfg, instcombine, loop-rotate, licm, indvars, adce
    )
)

#: The first line of a text in which nothing is repeated that LLVM would have to find, in a loop or otherwise: see
#: `codegen/scopes.py`. What `PASSES` has beyond these would take most of the time, and change next to nothing.
TIDY = "; tidy"
TIDY_PASSES = ",".join(
    (
        "sroa",  # small buffers become registers
        "simplifycfg",
        "instcombine",
        "adce",  # of such buffers, what is carried from round to round of a loop though nobody reads it
    )
)


def compile_ir(ir_text: str, target: CpuTarget, *, passes: str | None = None, made_from: str = "") -> Code:
    """The object code of IR text; `passes` is a comma-separated list in place of `PASSES`, or `TIDY_PASSES` if the text is tidy.

    Every defined function that is not `internal` or `private` is exported. Raises `InternalError` on IR that LLVM refuses.
    """
    ir_text = fused_ir(ir_text, target)
    ir_text += half_ir(ir_text, target)
    ir_text = _of_one_length(ir_text, target)
    list_of_passes = (TIDY_PASSES if ir_text.startswith(TIDY) else PASSES) if passes is None else passes
    machine = _machine(target)

    def optimised() -> llvm.ModuleRef:
        """Made when a text of it is asked for, by running the passes again."""
        module = compiler(machine).parse(ir_text)
        compiler(machine).optimise(module, list_of_passes)
        return module

    def assembly() -> str:
        return compiler(machine).assembly(optimised())

    unknown = {name.strip() for name in list_of_passes.split(",")} - {"", *MODULE_PASSES, *FUNCTION_PIPELINES}
    if unknown:
        known = ", ".join(sorted([*MODULE_PASSES, *FUNCTION_PIPELINES]))
        raise UserError(f"there is no pass {min(unknown)!r}; the passes are {known}")
    try:
        made = compiled(machine, ir_text, list_of_passes)
    except RuntimeError as error:
        raise InternalError(_explain(str(error), ir_text)) from None
    return Code(target, made.exported, made.data, {"llvm": lambda: str(optimised()), "asm": assembly}, made.seconds, made_from)


def _of_one_length(ir_text: str, target: CpuTarget) -> str:
    """The module with functions that say how long scalable vectors are, so that LLVM can use them for vectors of that length."""
    if not target.scalable_bytes:
        return ir_text
    times = target.scalable_bytes // 16  # how LLVM counts
    return re.sub(r"^(define [^{]*\))([^{)]*)\{", rf"\1 vscale_range({times},{times})\2{{", ir_text, flags=re.M)


def emit_object(ir_text: str, target: CpuTarget) -> bytes:
    """An object file that any linker takes, of IR text that the passes have been run on."""
    found = compiler(_machine(target, for_linkers=True))
    return found.emit(found.parse(ir_text))


def _machine(target: CpuTarget, for_linkers: bool = False) -> Machine:
    # for some cores LLVM loads a number, and copies it to all lanes then, which takes a unit from the multiply-adds
    features = f"{target.features},-no-sve-fp-ld1r" if target.scalable_bytes else target.features
    # where instructions are taken in their order, loads would wait for an address that is computed anew in every round
    return Machine(target.triple, target.cpu, features, target.in_order, for_linkers)


def _explain(message: str, ir_text: str) -> str:
    """LLVM's message, with the lines around the place it names."""
    message = "\n".join(message.strip().splitlines()[:6])
    place = re.search(r":(\d+):\d+: error", message)
    if place is None:
        return f"LLVM refuses the generated code: {message}"
    at = int(place[1])
    lines = ir_text.splitlines()[max(0, at - 3) : at + 2]
    numbered = "\n".join(f"{n:6} | {line}" for n, line in enumerate(lines, max(1, at - 2)))
    return f"LLVM cannot parse the generated code: {message}\n{numbered}"
