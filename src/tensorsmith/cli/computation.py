"""What a command works on: a model in an ONNX file, a PyTorch module that a function of a Python file makes, a workload of the
catalogue by name, or one that a Python file defines."""

from __future__ import annotations

import re
import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorsmith.errors import UserError
from tensorsmith.frontends.load import from_torch
from tensorsmith.frontends.load import load as load_onnx
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.lang.define import Tensor, workload
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue

MODEL, EXECUTABLE = ".onnx", ".tsm"
_MODULE = re.compile(r"(.+\.py):([A-Za-z_]\w*)")  # a Python file, and a function in it


def load(name: str) -> Workload:
    """The workload of a name such as `C2D-3-b1`, or of a file with `tensors = [A, B, C]` or `workload = ...` in it."""
    if not name.endswith(".py"):
        if Path(name).is_file():
            raise UserError(f"{name} is neither a Python file (.py) nor a model ({MODEL})")
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


@dataclass(frozen=True)
class Loading:
    """What the options say of how a model is to be loaded: `--shape`, `--outputs`, `--draw-seed`."""

    shapes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()  # names of tensors; none: the model's own
    seed: int | None = None

    @staticmethod
    def of(shape: Sequence[str] | None, outputs: Sequence[str] | None = None, draw_seed: int | None = None) -> Loading:
        """From the options as they were given; names of tensors may be joined by commas."""
        names = [name for text in outputs or () for name in text.split(",")]
        if "" in names:
            raise UserError(f"--outputs {','.join(outputs or ())}: a name is empty")
        return Loading(tuple(shape or ()), tuple(names), draw_seed)

    def refuse_for(self, name: str) -> None:
        """Raises `UserError` if anything is asked of what is no model."""
        if self.shapes:
            raise UserError(f"--shape {self.shapes[0]}: only the shapes of a model can be given, {name} is a workload")
        self.refuse_cut(f"{name} is a workload")

    def refuse_cut(self, why: str) -> None:
        """Raises `UserError` if something is asked that only ONNX files have."""
        if self.outputs:
            raise UserError(f"--outputs {','.join(self.outputs)}: only a model in an ONNX file can be cut, {why}")
        if self.seed is not None:
            raise UserError(f"--draw-seed {self.seed}: only operators of an ONNX file draw random numbers, {why}")


AS_IT_IS = Loading()


def load_any(name: str, given: Loading) -> Workload | Model | OpenModel:
    """A model if it is a file of that kind, else a workload, whose shapes are fixed."""
    if is_model(name) or is_module(name):
        return load_model(name, given)
    if is_executable(name):
        raise UserError(f"{name} is compiled already; give the model it was made of")
    given.refuse_for(name)
    return load(name)


def load_fixed(path: str, given: Loading = AS_IT_IS) -> Model:
    """As `load_model`, for those who need every size."""
    loaded = load_model(path, given)
    if isinstance(loaded, OpenModel):
        raise UserError(f"{', '.join(loaded.symbols)} must have one size here: --shape {loaded.symbols[0]}=8")
    return loaded


def load_model(path: str, given: Loading = AS_IT_IS) -> Model | OpenModel:
    """The model of an ONNX file, its open dimensions bound by texts such as `x=1x3x224x224` or `batch=1`, or left open.

    Or that of a PyTorch module which a function of a Python file makes: `file.py:function`.
    """
    if is_module(path):
        given.refuse_cut(f"{path} makes a PyTorch module")
        return _sized(_load_module(path), given.shapes)
    if not is_model(path):
        raise UserError(f"{path} is no model: expected a file that ends in {MODEL}, or FILE.py:FUNCTION")
    if not Path(path).is_file():
        raise UserError(f"there is no file {path}")
    return load_onnx(path, shapes=parse_shapes(given.shapes), outputs=given.outputs or None, seed=given.seed)


def _load_module(name: str) -> Model | OpenModel:
    """The model of what `function()` of `file.py` gives: a module, its example inputs and, if it likes, `dynamic_shapes`."""
    found = _MODULE.fullmatch(name)
    assert found is not None
    path, function = found.groups()
    if not Path(path).is_file():
        raise UserError(f"there is no file {path}")
    names = runpy.run_path(path)
    if not callable(names.get(function)):
        raise UserError(f"{path} has no function {function}")
    made = names[function]()
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise UserError(f"{function} of {path} gives {type(made).__name__}; it must give a module and its example inputs")
    return from_torch(made[0], made[1], dynamic_shapes=made[2] if len(made) == 3 else None)


def _sized(model: Model | OpenModel, shapes: Sequence[str]) -> Model | OpenModel:
    """A module's model, the sizes of its open dimensions named or fixed by texts such as `batch=1,8` or `batch=1`."""
    if not shapes:
        return model
    if not isinstance(model, OpenModel):
        raise UserError(f"--shape {shapes[0]}: the shapes of a module are those of its example inputs")
    given = parse_shapes(shapes)
    fixed = {name: n for name, n in given.items() if isinstance(n, int)}
    if fixed.keys() == set(model.symbols):
        return model.at(**fixed)
    named = {name: (n,) if isinstance(n, int) else n or () for name, n in given.items()}
    return model.with_sizes(**named)  # type: ignore[arg-type]  # what is no size is refused there


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int | None, ...] | int | None]:
    """What `--shape` says of inputs and dimensions.

    `x=1x3x224x224` (or with commas) is the shape of an input, `x=1,` one of rank 1, `batch=1` the size of a dimension; `batch=?`
    leaves it open, `x=?x3x224x224` one of an input, and `batch=1,8,32` names sizes of an open one.
    """
    found: dict[str, tuple[int | None, ...] | int | None] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not re.fullmatch(r"(\d+|\?)([x,](\d+|\?))*,?", size):
            raise UserError(f"--shape {text}: write input=1x3x224x224, dimension=1, dimension=? or dimension=1,8,32")
        if name in found:
            raise UserError(f"--shape {text}: {name} is given twice")
        sizes = tuple(None if n == "?" else int(n) for n in re.findall(r"\d+|\?", size))
        found[name] = sizes[0] if re.fullmatch(r"\d+|\?", size) else sizes
    return found


def is_model(name: str) -> bool:
    return name.lower().endswith(MODEL)


def is_module(name: str) -> bool:
    return _MODULE.fullmatch(name) is not None


def is_executable(name: str) -> bool:
    return name.lower().endswith(EXECUTABLE)
