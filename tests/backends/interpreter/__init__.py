"""A second backend, all of it in this folder: the interpreter of loop programs as a machine. Slow, but real.

Its code is the program itself, pickled; loading gives a callback with the entry that every kernel has. Importing the module makes
the backend known, here and in the processes that measure.
"""

from __future__ import annotations

import ctypes
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorsmith.backends import Backend, known, register_backend
from tensorsmith.backends.backend import KernelCode
from tensorsmith.backends.cpu.rules import ANSOR
from tensorsmith.errors import Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.features.rows import Batch, FeatureRows, Section
from tensorsmith.learn.features.schema import Feature, Schema
from tensorsmith.program.interpret import interpret
from tensorsmith.program.ir import Block, Node, Program
from tensorsmith.program.linear import Num
from tensorsmith.program.lower import lower, lower_decisions
from tensorsmith.runtime.arguments import DTYPES
from tensorsmith.runtime.built import Code
from tensorsmith.runtime.device import Device
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.space.tactics import Tactics
from tensorsmith.targets.target import Target

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class InterpreterTarget(Target):
    """The interpreter has hardly any facts."""

    kind: ClassVar[str] = "interpreter"

    cores: int = 1
    here: bool = True  # an interpreter of another place cannot be asked

    @property
    def name(self) -> str:
        return "interpreter" if self.here else "elsewhere"

    @property
    def key(self) -> str:
        return f"{self.name}/c{self.cores}"

    def lanes(self, element_bytes: int = 4) -> int:
        return 1

    @property
    def shared_cache_bytes(self) -> int:
        return 1 << 20

    @property
    def core_cache_bytes(self) -> int:
        return 1 << 16

    @classmethod
    def detect(cls) -> InterpreterTarget:
        return cls()

    @classmethod
    def catalogue(cls) -> dict[str, InterpreterTarget]:
        return {"interpreter": cls(), "elsewhere": cls(here=False)}


def default_candidate(workload: Workload, target: InterpreterTarget) -> Candidate:
    return plain_candidate(workload)


def generate(program: Program, target: InterpreterTarget) -> KernelCode:
    if any(b.packed and b.kind == "constant" for b in program.buffers.values()):
        raise Refusal("the interpreter packs by itself")
    return KernelCode(Code(target, frozenset({"entry"}), pickle.dumps(program), {"loops": lambda: str(program)}))


# -- what is known before anything is measured: the interpreter takes about a tenth of a millisecond for each block that it runs

BLOCKS = Schema("interpreter", 1, (Feature("blocks", "blocks", "Register tiles that are computed, one after the other.", "work"),))
SECONDS_PER_BLOCK = 1e-4


def blocks(node: Node, around: Num = 1) -> Num:
    """How many are run below a node, in each candidate of a batch."""
    if isinstance(node, Block):
        return around + sum(blocks(n, around) for n in node.before)
    return sum(blocks(n, around * node.var.count) for n in node.body)


def extract_rows(batches: Sequence[Batch], target: InterpreterTarget) -> FeatureRows:
    """One statement per candidate."""
    counts, sections = [], []
    for sketch, decisions in batches:
        size = max(np.size(value) for value in decisions.values()) if decisions else 1
        total = sum(blocks(node) for node in lower_decisions(sketch, decisions).body)
        sections.append(Section(("all",), (sum(map(len, counts)),), size))
        counts.append(np.broadcast_to(total, size))
    values = np.log2(np.concatenate([np.empty(0), *counts]) + 1.0).astype(np.float32)[:, None]
    return FeatureRows(values, np.arange(len(values)), len(values), tuple(sections), BLOCKS)


def estimated_seconds(rows: FeatureRows, target: InterpreterTarget) -> np.ndarray:
    return rows.total(SECONDS_PER_BLOCK * np.exp2(rows.values[:, 0]))


def explain(candidate: Candidate, target: InterpreterTarget) -> str:
    return f"{sum(blocks(node) for node in lower(candidate).body)} blocks"


class InterpreterTactics(Tactics):
    """Any rows will do; the machine has nothing to say."""

    def __init__(self, target: InterpreterTarget) -> None:
        self.target = target


class Loaded:
    """A program behind an address."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self._program: Program = pickle.loads(code.data)
        self._entry = ENTRY(self._run)

    def address(self, name: str) -> int:
        return ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def _run(self, arguments: int, scratch: int, pool: int, parallel_for: int) -> None:
        workload = self._program.workload
        pointers = iter((ctypes.c_void_p * (len(workload.inputs) + len(workload.outputs))).from_address(arguments))
        inputs = {b.name: _array(next(pointers), b.shape, b.dtype) for b in workload.inputs}
        results = interpret(self._program, inputs)
        for name in workload.outputs:
            b = workload.buffers[name]
            _array(next(pointers), b.shape, b.dtype)[...] = results[name].reshape(b.shape)


def _array(address: int | None, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    numpy_dtype = DTYPES[dtype]
    memory = (ctypes.c_char * (math.prod(shape) * numpy_dtype.itemsize)).from_address(address or 0)
    return np.frombuffer(memory, numpy_dtype).reshape(shape)


def why_not(target: Target) -> str | None:
    return None if getattr(target, "here", False) else f"was compiled for {target.name}, this is the interpreter here"


BACKEND = Backend(
    kind="interpreter",
    target=InterpreterTarget,
    device=Device("interpreter", why_not, Loaded),
    rule_sets={"default": ANSOR},
    default_candidate=default_candidate,
    tactics=InterpreterTactics,
    generate=generate,
    schema=BLOCKS,
    extract_rows=extract_rows,
    estimated_seconds=estimated_seconds,
    explain=explain,
    expected_roof=lambda target: (1e6, 1e6),
    module=__name__,
)
if "interpreter" not in known():
    register_backend(BACKEND)
