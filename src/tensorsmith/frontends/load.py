"""Whatever holds a network, a file or a module, as a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from tensorsmith.errors import UserError, install
from tensorsmith.graph.garbage import uncollected
from tensorsmith.graph.graph import Array
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel

if TYPE_CHECKING:
    from onnx import ModelProto  # not installed with everyone

    from tensorsmith.language.model import LanguageModel


@overload
def load(
    model: str | Path | bytes | ModelProto,
    *,
    shapes: Mapping[str, tuple[int, ...] | int] | None = None,
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
) -> Model: ...


@overload
def load(
    model: str | Path | bytes | ModelProto,
    *,
    shapes: Mapping[str, Sequence[int | str | None] | int | None],
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
) -> Model | OpenModel: ...


def load(
    model: str | Path | bytes | ModelProto,
    *,
    shapes: Mapping[str, Any] | None = None,
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
) -> Model | OpenModel | LanguageModel:
    """The model of an ONNX file: `model` is its path, its bytes, or the loaded proto. Or a language model: the path of a GGUF file,
    or of a folder of Hugging Face with `config.json` and safetensors files.

    `shapes` gives what the file leaves open: the shapes of inputs and the sizes of symbolic dimensions, by name, as in
    `shapes={"x": (1, 3, 224, 224), "batch": 1}`. Inputs named in `constants` become constants of that value.

    A dimension may stay open: `shapes={"batch": None}`, or `{"x": (None, 3, 224, 224)}`. That gives an `OpenModel`, whose
    executables take any size, and compile it when it first comes. With `shapes={"batch": [1, 8, 32]}` these sizes are compiled at
    once, and are what `tune` tunes.

    `outputs` cuts the model: what it gives are these tensors, by the names that they have in the file, outputs there or not. What
    they are not computed from is not looked at. So a detector whose last nodes are not supported (NonMaxSuppression chooses a
    number of boxes that only the image tells) gives its boxes and scores: `outputs=["boxes", "scores"]`.

    Operators that draw random numbers (RandomNormal, RandomUniform, those like a tensor, Bernoulli, Multinomial) need a `seed`.
    They draw anew in every call of an executable: the same seed and the same sequence of calls give the same numbers.

        model = ts.load("model.onnx", shapes={"batch": 1})
        exe = ts.compile(model)

    Raises `UserError` if the file cannot be read, leaves a size open that is not given, or has operators that are not supported,
    with all of them in one message.
    """
    if isinstance(model, (str, Path)) and is_language_model(Path(model)):
        if any(given is not None for given in (shapes, constants, outputs, seed)):
            raise UserError("shapes, constants, outputs and seed are for ONNX files; a language model has none of them")
        from tensorsmith.language.files import load as load_language_model  # loaded by those who read one

        return load_language_model(Path(model))
    _need_onnx()
    from tensorsmith.frontends.onnx.importer import load_or_open

    with uncollected():
        found = load_or_open(model, shapes or {}, constants, outputs, seed)
        return found if isinstance(found, OpenModel) else Model(found)


def is_language_model(path: Path) -> bool:
    """Whether a path is one of a language model: a GGUF file, or a folder."""
    return path.suffix == ".gguf" or path.is_dir()


@overload
def from_torch(module: Any, example_inputs: Any, dynamic_shapes: None = None) -> Model: ...


@overload
def from_torch(module: Any, example_inputs: Any, dynamic_shapes: Any) -> Model | OpenModel: ...


def from_torch(module: Any, example_inputs: Any, dynamic_shapes: Any = None) -> Model | OpenModel:
    """The model of a PyTorch module (or a function of tensors), by `torch.export`.

    `example_inputs` is a tensor, a tuple of arguments, or a dict of arguments by name; their shapes and types are the model's.
    Weights become constants: later changes to the module are not seen. Executables of the model are called as the module is, with
    tensors or arrays, and give tensors in the module's own structure.

    `dynamic_shapes` is as for `torch.export.export`, `{"x": {0: torch.export.Dim("batch")}}`, and gives an `OpenModel`: its
    executables take any size of these dimensions, and compile it when it first comes. The module is copied for that. Sizes to be
    compiled at once, and tuned, are named by `model.with_sizes(batch=[1, 8])`.

        model = ts.from_torch(module.eval(), (torch.randn(1, 3, 224, 224),))
        exe = ts.compile(model)
        y = exe(x)

    Raises `UserError` if PyTorch cannot export the `module`, or if it uses operators that are not supported, with all of them in
    one message.
    """
    try:
        import torch  # noqa: F401
    except ImportError as problem:
        raise UserError(f"from_torch needs PyTorch: {install('torch')}") from problem
    if dynamic_shapes is not None:
        from tensorsmith.frontends.torch.open_model import open_from_torch

        return open_from_torch(module, example_inputs, dynamic_shapes)
    from tensorsmith.frontends.torch.model import from_torch as convert

    return convert(module, example_inputs)


def open_names(path: str | Path) -> set[str]:
    """The names that `load` takes shapes for: an ONNX file's inputs and its symbolic dimensions."""
    _need_onnx()
    from tensorsmith.frontends.onnx.inputs import names_of
    from tensorsmith.frontends.onnx.read import read_model

    return names_of(read_model(path)[0].graph)


def _need_onnx() -> None:
    try:
        import onnx  # noqa: F401  # not needed by those who load nothing, and not installed with everyone
    except ImportError as problem:
        raise UserError(f"reading ONNX files needs the onnx package: {install('onnx')}") from problem
