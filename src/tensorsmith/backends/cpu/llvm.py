"""LLVM IR text to machine code for any CPU that LLVM knows.

    text --parse, verify--> module --passes--> module --emit--> object code

Every module is parsed in an LLVM context of its own that is freed as soon as the object code exists, and one target machine serves
all modules of a target. A dropped module leaves 1.5 KB behind, in llvmlite's pass builder.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from time import perf_counter

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from tensorsmith.backends.cpu.fused_ir import fused_ir
from tensorsmith.backends.cpu.half_ir import half_ir
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

#: Other passes that a list may name, with the llvmlite method that adds each.
_MODULE_PASSES = {
    "always-inline": "add_always_inliner_pass",
    "adce": "add_aggressive_dce_pass",
    "dce": "add_dead_code_elimination_pass",
    "dse": "add_dead_store_elimination_pass",
    "globaldce": "add_global_dead_code_eliminate_pass",
    "instcombine": "add_instruction_combine_pass",
    "loop-reduce": "add_loop_strength_reduce_pass",
    "loop-rotate": "add_loop_rotate_pass",
    "loop-simplify": "add_loop_simplify_pass",
    "newgvn": "add_new_gvn_pass",
    "reassociate": "add_reassociate_pass",
    "sccp": "add_sccp_pass",
    "simplifycfg": "add_simplify_cfg_pass",
    "sink": "add_sinking_pass",
    "sroa": "add_sroa_pass",
}
#: LLVM's function simplification pipeline by its speed level.
_FUNCTION_PIPELINES = {"simplify-1": 1, "simplify-2": 2, "simplify-3": 3}

#: What llvmlite takes for every call into LLVM; a thread may take it again.
_llvm_lock = getattr(getattr(ffi.lib, "_lock", None), "_lock", None)

_CODEGEN_LEVEL = 3  # 0.5 ms of 9 over level 2, for the more thorough scheduler settings of some targets


def compile_ir(ir_text: str, target: CpuTarget, *, passes: str | None = None, made_from: str = "") -> Code:
    """The object code of IR text; `passes` is a comma-separated list in place of `PASSES`, or `TIDY_PASSES` if the text is tidy.

    Every defined function that is not `internal` or `private` is exported. Raises `InternalError` on IR that LLVM refuses.
    """
    compiler = _compiler(target)
    ir_text = fused_ir(ir_text, target)
    ir_text += half_ir(ir_text, target)
    ir_text = _of_one_length(ir_text, target)
    list_of_passes = (TIDY_PASSES if ir_text.startswith(TIDY) else PASSES) if passes is None else passes

    def optimised() -> llvm.ModuleRef:
        """Made when a text of it is asked for, by running the passes again."""
        module = compiler.parse(ir_text)
        compiler.optimise(module, list_of_passes)
        return module

    def assembly() -> str:
        with _emission(target):
            return str(compiler.machine.emit_assembly(optimised()))

    start = perf_counter()
    module = compiler.parse(ir_text)
    parsed = perf_counter()
    compiler.optimise(module, list_of_passes)
    passed = perf_counter()
    exported = frozenset(f.name for f in module.functions if not f.is_declaration and f.linkage.name not in ("internal", "private"))
    with _emission(target):
        object_code = compiler.machine.emit_object(module)
    seconds = {"parse": parsed - start, "passes": passed - parsed, "emit": perf_counter() - passed}
    return Code(target, exported, object_code, {"llvm": lambda: str(optimised()), "asm": assembly}, seconds, made_from)


def _of_one_length(ir_text: str, target: CpuTarget) -> str:
    """The module with functions that say how long scalable vectors are, so that LLVM can use them for vectors of that length."""
    if not target.scalable_bytes:
        return ir_text
    times = target.scalable_bytes // 16  # how LLVM counts
    return re.sub(r"^(define [^{]*\))([^{)]*)\{", rf"\1 vscale_range({times},{times})\2{{", ir_text, flags=re.M)


def emit_object(ir_text: str, target: CpuTarget) -> bytes:
    """An object file that any linker takes, of IR text that the passes have been run on."""
    compiler = _compiler(target, for_linkers=True)
    module = compiler.parse(ir_text)
    with _emission(target):
        return bytes(compiler.machine.emit_object(module))


def _emission(target: CpuTarget) -> contextlib.AbstractContextManager[None]:
    """Where instructions are taken in their order, loads would wait for an address that is computed anew in every round."""
    return contextlib.nullcontext() if target.in_order else _without_strength_reduction()


@contextlib.contextmanager
def _without_strength_reduction() -> Iterator[None]:
    """Emission without LLVM's loop strength reduction. It takes half of the time and finds nothing: addresses are affine with
    constant offsets already.

    LLVM knows this choice only as an option of the whole process. Who else compiles with LLVM in this process must not see it,
    so it is made for the time of one emission, and nobody else's call of llvmlite comes in between.
    """
    with _llvm_lock or contextlib.nullcontext():
        llvm.set_option("", "--disable-lsr")
        try:
            yield
        finally:
            llvm.set_option("", "--disable-lsr=false")


class _Compiler:
    """LLVM's objects for one target, made once."""

    def __init__(self, target: CpuTarget, for_linkers: bool) -> None:
        self.machine = _target_machine(target, for_linkers)
        self.layout = str(self.machine.target_data)
        self._pipelines: dict[str, llvm.NewPassManager] = {}  # kept: llvmlite never frees a pass manager

    def parse(self, ir_text: str) -> llvm.ModuleRef:
        try:
            module = llvm.parse_assembly(ir_text, llvm.create_context())
            module.triple = self.machine.triple
            module.data_layout = self.layout
            module.verify()
        except RuntimeError as error:
            raise InternalError(_explain(str(error), ir_text)) from None
        return module

    def optimise(self, module: llvm.ModuleRef, passes: str) -> None:
        builder = self._pass_builder()
        for name in filter(None, (part.strip() for part in passes.split(","))):
            pipeline = self._pipelines.get(name) or self._pipelines.setdefault(name, self._pipeline(name))
            if isinstance(pipeline, llvm.ModulePassManager):
                pipeline.run(module, builder)
                continue
            for function in module.functions:
                if not function.is_declaration:
                    pipeline.run(function, builder)

    def _pipeline(self, name: str) -> llvm.NewPassManager:
        if name in _FUNCTION_PIPELINES:
            return self._pass_builder(_FUNCTION_PIPELINES[name]).getFunctionPassManager()
        if name in _MODULE_PASSES:
            manager = llvm.create_new_module_pass_manager()
            getattr(manager, _MODULE_PASSES[name])()
            return manager
        known = ", ".join(sorted([*_MODULE_PASSES, *_FUNCTION_PIPELINES]))
        raise UserError(f"there is no pass {name!r}; the passes are {known}")

    def _pass_builder(self, level: int = 1) -> llvm.PassBuilder:
        """A new builder; each run through one leaves callbacks in it, so a shared one gets slower with every module."""
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = options.loop_interleaving = False
        return llvm.create_pass_builder(self.machine, options)


@functools.cache
def _compiler(target: CpuTarget, for_linkers: bool = False) -> _Compiler:
    _initialise_compiler()
    return _Compiler(target, for_linkers)


@functools.cache
def _initialise_compiler() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # for inline assembly


def _target_machine(target: CpuTarget, for_linkers: bool = False) -> llvm.TargetMachine:
    """Code that this process loads has to work at any distance from what it calls; other linkers put theirs close together."""
    model = "small" if for_linkers else "jitdefault"
    # for some cores LLVM loads a number, and copies it to all lanes then, which takes a unit from the multiply-adds
    features = f"{target.features},-no-sve-fp-ld1r" if target.scalable_bytes else target.features
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=features, opt=_CODEGEN_LEVEL, reloc="pic", codemodel=model, jit=not for_linkers
    )


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


# A fork while another thread compiles must not leave LLVM's lock taken in the child.
if _llvm_lock is not None and hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_llvm_lock.acquire, after_in_parent=_llvm_lock.release, after_in_child=_llvm_lock.release)
