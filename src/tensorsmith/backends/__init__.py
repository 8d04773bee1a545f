"""Kinds of machines: one folder each, one `Backend` record each. The rest of the package knows the records, not the folders.

backend     what a kind of machine gives to the rest      cpu/     x86, ARM and other CPUs, by LLVM
rules       sets of rules, rules of the user's own, and the sketches and spaces they give
"""

from tensorsmith.backends.backend import Backend, backend_named, backend_of, known, register_backend
from tensorsmith.backends.rules import register_rule, registered, rule_set, rules_added, sketches, space_of

__all__ = [
    "Backend",
    "backend_named",
    "backend_of",
    "known",
    "register_backend",
    "register_rule",
    "registered",
    "rule_set",
    "rules_added",
    "sketches",
    "space_of",
]
