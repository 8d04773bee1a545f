"""CPUs: facts, default schedules, features and prior, LLVM code.

default, default_tile     the schedule that needs no search      codegen/     loop programs to LLVM IR
features/, prior, rates   what is known before measuring         explain      the same in words
rules/                    the sets of derivation rules           tactics/     what the space asks of the machine
"""

from tensorsmith.backends.backend import Backend
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.rules import ANSOR, DEFAULT
from tensorsmith.backends.cpu.tactics import CpuTactics

BACKEND = Backend(
    kind="cpu",
    rule_sets={"default": DEFAULT, "ansor": ANSOR},
    default_candidate=default_candidate,
    tactics=CpuTactics,
)
