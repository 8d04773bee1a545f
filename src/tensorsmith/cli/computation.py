"""What a command works on: a workload of the catalogue by name, or one that a Python file defines."""

from __future__ import annotations

import runpy
from pathlib import Path

from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, workload
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue


def load(name: str) -> Workload:
    """The workload of a name such as `C2D-3-b1`, or of a file with `tensors = [A, B, C]` or `workload = ...` in it."""
    if not name.endswith(".py"):
        return catalogue.get(name).workload()
    if not Path(name).is_file():
        raise UserError(f"there is no file {name}")
    names = runpy.run_path(name)
    found = names.get("workload", names.get("tensors"))
    if isinstance(found, Workload):
        return found
    if isinstance(found, (list, tuple)) and all(isinstance(t, Tensor) for t in found):
        return workload(found)
    raise UserError(f"{name} must define `tensors = [inputs and outputs]` or `workload = tensorsmith.workload([...])`")
