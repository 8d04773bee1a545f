"""Whatever file holds a network, as a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tensorsmith.errors import UserError
from tensorsmith.graph.graph import Array
from tensorsmith.graph.model import Model

if TYPE_CHECKING:
    from onnx import ModelProto  # not installed with everyone


def load(
    model: str | Path | bytes | ModelProto,
    *,
    shapes: Mapping[str, Sequence[int] | int] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> Model:
    """The model of an ONNX file (its path, its bytes, or the loaded proto).

    `shapes` gives what the file leaves open: the shapes of inputs and the sizes of symbolic dimensions, by name, as in
    `shapes={"x": (1, 3, 224, 224), "batch": 1}`. Inputs named in `constants` become constants of that value.
    """
    try:
        import onnx  # noqa: F401  # not needed by those who load nothing, and not installed with everyone
    except ImportError as problem:
        raise UserError("reading ONNX files needs the onnx package: pip install 'tensorsmith[onnx]'") from problem
    from tensorsmith.frontends.onnx.importer import load_onnx

    return Model(load_onnx(model, shapes, constants))
