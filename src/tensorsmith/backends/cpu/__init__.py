"""CPUs: facts, default schedules, features and prior, LLVM code.

default, default_tile     the schedule that needs no search      codegen/     loop programs to LLVM IR
features/, prior, rates   what is known before measuring         explain      the same in words
memory                    what its programs ask of memory
"""

from tensorsmith.backends.backend import Backend
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.explain import explain
from tensorsmith.backends.cpu.features.batch import extract_rows
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.backends.cpu.prior import estimated_seconds
from tensorsmith.space.derive import ANSOR, DEFAULT

BACKEND = Backend(
    kind="cpu",
    rule_sets={"default": DEFAULT, "ansor": ANSOR},
    default_candidate=default_candidate,
    schema=SCHEMA,
    extract_rows=extract_rows,
    estimated_seconds=estimated_seconds,
    explain=explain,
)
