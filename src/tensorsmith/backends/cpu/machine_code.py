"""LLVM at work: text to a module, passes over it, machine code of it.

    text --parse, verify--> module --passes--> module --emit--> object code

Every module is parsed in an LLVM context of its own that is freed as soon as the object code exists, and one target machine serves
all modules of a machine. A dropped module leaves 1.5 KB behind, in llvmlite's pass builder.

This file is also a program: a process that compiles for another (`compilers.py`). So it imports nothing but llvmlite.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

if __name__ == "__main__":  # started without the usual places to look: they are slow to find out, and only one matters
    sys.path.append(sys.argv[1])

import llvmlite.binding as llvm
from llvmlite.binding import ffi

#: Passes that a list may name, with the llvmlite method that adds each.
MODULE_PASSES = {
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
FUNCTION_PIPELINES = {"simplify-1": 1, "simplify-2": 2, "simplify-3": 3}

#: What llvmlite takes for every call into LLVM; a thread may take it again.
_llvm_lock = getattr(getattr(ffi.lib, "_lock", None), "_lock", None)

_CODEGEN_LEVEL = 3  # 0.5 ms of 9 over level 2, for the more thorough scheduler settings of some targets


class Machine(NamedTuple):
    """What LLVM has to know of a machine."""

    triple: str
    cpu: str
    features: str
    reduces_strength: bool  # whether loop strength reduction runs
    for_linkers: bool = False  # code that this process loads has to work at any distance from what it calls; linkers put it close


class Made(NamedTuple):
    """Object code, the functions it exports, and the seconds that each step took."""

    exported: frozenset[str]
    data: bytes
    seconds: dict[str, float]


class Compiler:
    """LLVM's objects for one machine, made once."""

    def __init__(self, machine: Machine) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        llvm.initialize_native_asmparser()  # for inline assembly
        self._reduces_strength = machine.reduces_strength
        model = "small" if machine.for_linkers else "jitdefault"
        self.machine = llvm.Target.from_triple(machine.triple).create_target_machine(
            machine.cpu, machine.features, opt=_CODEGEN_LEVEL, reloc="pic", codemodel=model, jit=not machine.for_linkers
        )
        self.layout = str(self.machine.target_data)
        self._pipelines: dict[str, llvm.NewPassManager] = {}  # kept: llvmlite never frees a pass manager

    def compile(self, ir_text: str, passes: str) -> Made:
        start = perf_counter()
        module = self.parse(ir_text)
        parsed = perf_counter()
        self.optimise(module, passes)
        passed = perf_counter()
        defined = [f for f in module.functions if not f.is_declaration]
        exported = frozenset(f.name for f in defined if f.linkage.name not in ("internal", "private"))
        data = self.emit(module)
        return Made(exported, data, {"parse": parsed - start, "passes": passed - parsed, "emit": perf_counter() - passed})

    def parse(self, ir_text: str) -> llvm.ModuleRef:
        """Raises `RuntimeError` with LLVM's words on a text that it refuses."""
        module = llvm.parse_assembly(ir_text, llvm.create_context())
        module.triple = self.machine.triple
        module.data_layout = self.layout
        module.verify()
        return module

    def optimise(self, module: llvm.ModuleRef, passes: str) -> None:
        """Raises `KeyError` for a pass that there is not."""
        builder = self._pass_builder()
        for name in filter(None, (part.strip() for part in passes.split(","))):
            pipeline = self._pipelines.get(name) or self._pipelines.setdefault(name, self._pipeline(name))
            if isinstance(pipeline, llvm.ModulePassManager):
                pipeline.run(module, builder)
                continue
            for function in module.functions:
                if not function.is_declaration:
                    pipeline.run(function, builder)

    def emit(self, module: llvm.ModuleRef) -> bytes:
        with self._emission():
            return bytes(self.machine.emit_object(module))

    def assembly(self, module: llvm.ModuleRef) -> str:
        with self._emission():
            return str(self.machine.emit_assembly(module))

    def _emission(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._reduces_strength else without_strength_reduction()

    def _pipeline(self, name: str) -> llvm.NewPassManager:
        if name in FUNCTION_PIPELINES:
            return self._pass_builder(FUNCTION_PIPELINES[name]).getFunctionPassManager()
        manager = llvm.create_new_module_pass_manager()
        getattr(manager, MODULE_PASSES[name])()
        return manager

    def _pass_builder(self, level: int = 1) -> llvm.PassBuilder:
        """A new builder; each run through one leaves callbacks in it, so a shared one gets slower with every module."""
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = options.loop_interleaving = False
        return llvm.create_pass_builder(self.machine, options)


@contextlib.contextmanager
def without_strength_reduction() -> Iterator[None]:
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


# A fork while another thread compiles must not leave LLVM's lock taken in the child.
if _llvm_lock is not None and hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_llvm_lock.acquire, after_in_parent=_llvm_lock.release, after_in_child=_llvm_lock.release)


def serve() -> None:
    """Answers requests (a machine, a text, passes) until there are no more; with None where LLVM refuses: whoever asked will try
    for himself, and see why."""
    compilers: dict[tuple[object, ...], Compiler] = {}
    while True:
        try:
            machine, ir_text, passes = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            if machine not in compilers:
                compilers[machine] = Compiler(Machine(*machine))
            answer = tuple(compilers[machine].compile(ir_text, passes))
        except (RuntimeError, KeyError):
            answer = None
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
