"""CPUs: facts, default schedules, features and prior, LLVM code.

default, default_tile     the schedule that needs no search      codegen/     loop programs to LLVM IR
features/, prior, rates   what is known before measuring         explain      the same in words
outlook                   a candidate's expected seconds, a target's expected peak
"""

from tensorsmith.backends.backend import Backend
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.explain import explain
from tensorsmith.backends.cpu.outlook import expected_roof, expected_seconds
from tensorsmith.space.derive import ANSOR, DEFAULT

BACKEND = Backend(
    kind="cpu",
    rule_sets={"default": DEFAULT, "ansor": ANSOR},
    default_candidate=default_candidate,
    explain=explain,
    expected_seconds=expected_seconds,
    expected_roof=expected_roof,
)
