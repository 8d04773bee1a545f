"""PyTorch modules as graphs: `from_torch`, and the backend of `torch.compile`. The table of operators is in `table`, their handlers
in a module per family."""

from tensorsmith.frontends.torch.importer import UnsupportedNodes
from tensorsmith.frontends.torch.model import from_torch

__all__ = ["UnsupportedNodes", "from_torch"]
