"""Conformance suites for plug-ins: their authors run them, and our own parts pass them too."""

from tensorsmith.testing.backend import check_backend

__all__ = ["check_backend"]
