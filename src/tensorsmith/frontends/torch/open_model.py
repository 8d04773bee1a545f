"""`from_torch` with `dynamic_shapes`: a module as a model of open dimensions.

The module is exported once with its dimensions open, by which PyTorch checks what is left open and names it, and once more for each
size that comes, all numbers fixed. It is copied first, so that later changes to it are not seen.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tensorsmith.errors import UserError
from tensorsmith.frontends.torch.export import export_open, signature
from tensorsmith.frontends.torch.model import Convention, TorchModel, as_arguments, as_module, from_torch
from tensorsmith.frontends.torch.types import array_of, tensor_of
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.runtime.arguments import in_order
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.runtime.variants.symbols import LARGEST, OpenArgument, shown

_Place = tuple[int, int]  # a tensor, by its number among the arguments laid out flat, and one of its dimensions


def open_from_torch(module: Any, example_inputs: Any, dynamic_shapes: Any) -> Model | OpenModel:
    """As `tensorsmith.from_torch`."""
    held = _copy(module)
    args, kwargs = as_arguments(example_inputs)
    base = from_torch(held, example_inputs)
    assert isinstance(base, TorchModel)
    whole = as_module(held)
    program = export_open(whole, args, kwargs, dynamic_shapes)
    found = _symbols(program, _dimension_names(whole, args, kwargs, dynamic_shapes))
    inputs = [
        OpenArgument(v.name, tuple(found.names.get((n, d), size) for d, size in enumerate(v.shape)), v.dtype)
        for v, n in zip(base.inputs, base.convention.taken)
    ]
    if not any(isinstance(d, str) for a in inputs for d in a.dims):
        return base  # PyTorch found that every size is fixed, or is not used
    flat, spec = pytree.tree_flatten((args, kwargs))

    def make(sizes: Mapping[str, int]) -> Model:
        for name, n in sizes.items():
            least, most = found.ranges.get(name, (1, None))
            if n < least or (most is not None and n > most):
                allowed = f"{least} to {most}" if most is not None else f"{least} and more"
                raise UserError(f"{shown(list(sizes), tuple(sizes.values()))}: torch.export allows {allowed} for {name}")
        new = [_resized(x, n, found.names, sizes) for n, x in enumerate(flat)]
        new_args, new_kwargs = pytree.tree_unflatten(new, spec)
        return from_torch(held, new_kwargs if new_kwargs else tuple(new_args))

    return TorchOpenModel(base.name, inputs, make, base.convention)


def _copy(module: Any) -> Any:
    if not isinstance(module, torch.nn.Module):
        return module
    try:
        return copy.deepcopy(module)
    except Exception as problem:  # whatever its parts raise
        raise UserError(f"{type(module).__name__} cannot be copied, which dynamic_shapes need: {problem}") from problem


class _Symbols:
    """The names of open dimensions by their places, and the sizes that PyTorch allows: from, to (None: any)."""

    def __init__(self) -> None:
        self.names: dict[_Place, str] = {}
        self.ranges: dict[str, tuple[int, int | None]] = {}


def _symbols(program: ExportedProgram, wanted: Mapping[_Place, str]) -> _Symbols:
    """What the exported graph says of its inputs; `wanted` are the user's names, the others are those of input and place."""
    found = _Symbols()
    names: dict[str, str] = {}  # by PyTorch's symbol
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for number, name in enumerate(signature(program).inputs):
        value = values.get(name)
        if not isinstance(value, torch.Tensor):
            continue
        for d, size in enumerate(value.shape):
            if isinstance(size, int):
                continue
            symbol = size.node.expr
            if not symbol.is_symbol:
                raise UserError(f"dimension {d} of {name} is {symbol}; only dimensions that are open by themselves are supported")
            found.names[number, d] = names.setdefault(str(symbol), wanted.get((number, d), f"{name}_{d}"))
    for symbol, allowed in program.range_constraints.items():
        if str(symbol) in names:
            least, most = _whole(allowed.lower), _whole(allowed.upper)
            # PyTorch begins at 2 where nobody said otherwise: 0 and 1 have graphs of their own, which they get here
            found.ranges[names[str(symbol)]] = (1 if least is None or least <= 2 else least, most)
    return found


def _whole(bound: Any) -> int | None:
    """A bound of PyTorch's as a number; None where it is none."""
    if not getattr(bound, "is_Integer", isinstance(bound, int)):  # one of SymPy's, or infinity
        return None
    return int(bound) if abs(int(bound)) < LARGEST else None


def _dimension_names(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> dict[_Place, str]:
    """The names that the user gave: `Dim("batch")`, for arguments that are tensors by themselves."""
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    by_name = dynamic_shapes if isinstance(dynamic_shapes, Mapping) else dict(zip(given, dynamic_shapes))
    found: dict[_Place, str] = {}
    number = 0
    for name, value in given.items():
        dims = by_name.get(name)
        if isinstance(value, torch.Tensor) and dims is not None:
            pairs = dims.items() if isinstance(dims, Mapping) else enumerate(dims)
            found |= {(number, d): dim.__name__ for d, dim in pairs if isinstance(getattr(dim, "__name__", None), str)}
        number += len(pytree.tree_leaves(value))
    return found


def _resized(x: Any, number: int, names: Mapping[_Place, str], sizes: Mapping[str, int]) -> Any:
    """An example of another size: zeros, which are in range as indices too."""
    if not isinstance(x, torch.Tensor):
        return x
    shape = [sizes[names[number, d]] if (number, d) in names else n for d, n in enumerate(x.shape)]
    return x if shape == list(x.shape) else torch.zeros(shape, dtype=x.dtype)


class TorchOpenModel(OpenModel):
    """A module of open dimensions; executables of it take and give tensors."""

    def __init__(self, name: str, inputs: Sequence[OpenArgument], make: Any, convention: Convention) -> None:
        super().__init__(name, inputs, {}, make)
        self.convention = convention

    def presented(self, executable: OpenExecutable) -> OpenExecutable:
        return TorchOpenExecutable(executable, self.convention)


class TorchOpenExecutable(OpenExecutable):
    """A compiled module of open dimensions: called as the module itself, gives what it gives.

    A file that `save` wrote gives, loaded, an executable of plain arrays.
    """

    def __init__(self, executable: OpenExecutable, convention: Convention) -> None:
        super().__init__(
            executable.name, executable.inputs, executable.maker, keep=executable.keep, background=executable.background
        )
        self.ranges = executable.ranges
        self.convention = convention
        self._tensors_alone = all(not isinstance(r, tuple) or r[0] is None for r in convention.results)  # no size among the results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arrays = self.convention.arrays(self.name, args, kwargs)
        sizes = self.sizes_of(arrays)
        bounded = self.bounded(sizes) if self._tensors_alone else None
        if bounded is not None:
            return self.convention.structured([tensor_of(r) for r in bounded(sizes, self.accepted(arrays, sizes))])
        if self.background and self._tensors_alone and sizes not in self._variants:
            served = self.serve(sizes, self.accepted(arrays, sizes))
            if served is not None:
                return self.convention.structured([tensor_of(r) for r in served])
        return self.variant(sizes).executable(*args, **kwargs)

    def __reduce__(self) -> NoReturn:
        raise UserError(
            f"{self.name} is called as its PyTorch module is, so it cannot be pickled; use save(), and load_executable() there, "
            "which gives an executable of plain arrays"
        )

    def _like(self, executable: OpenExecutable) -> OpenExecutable:
        return TorchOpenExecutable(executable, self.convention)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = in_order(self.name, self._input_names, (), inputs)
        arrays = [array_of(x) if isinstance(x, torch.Tensor) else x for x in given]
        return self.variant(self.sizes_of(arrays)).executable.run(dict(zip(self._input_names, arrays)))
