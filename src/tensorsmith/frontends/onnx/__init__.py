"""ONNX files as graphs: `load_onnx`. The table of operators is in `table`, their handlers in a module per family."""

from tensorsmith.frontends.onnx.importer import UnsupportedOperators, load_onnx
from tensorsmith.frontends.onnx.table import NeedsConstant

__all__ = ["NeedsConstant", "UnsupportedOperators", "load_onnx"]
