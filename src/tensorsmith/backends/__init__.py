"""Kinds of machines: one folder each, one `Backend` record each. The rest of the package knows the records, not the folders.

backend     what a kind of machine gives to the rest      cpu/     x86, ARM and other CPUs, by LLVM
"""

from tensorsmith.backends.backend import Backend, backend_of, known, register_backend

__all__ = ["Backend", "backend_of", "known", "register_backend"]
