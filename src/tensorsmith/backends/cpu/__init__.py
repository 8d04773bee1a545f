"""CPUs: facts, default schedules, features and prior, LLVM code.

default, default_tile     the schedule that needs no search      codegen/     loop programs to LLVM IR
features/, prior, rates   what is known before measuring         explain      the same in words
memory                    what its programs ask of memory
"""

from tensorsmith.backends.backend import Backend, later
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.space.derive import ANSOR, DEFAULT

BACKEND = Backend(
    kind="cpu",
    rule_sets={"default": DEFAULT, "ansor": ANSOR},
    default_candidate=default_candidate,
    schema=SCHEMA,
    extract_rows=later("tensorsmith.backends.cpu.features.batch", "extract_rows"),
    estimated_seconds=later("tensorsmith.backends.cpu.prior", "estimated_seconds"),
    explain=later("tensorsmith.backends.cpu.explain", "explain"),
)
