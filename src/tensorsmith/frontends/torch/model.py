"""`from_torch`, and the executable of a module: tensors in, tensors out, in the module's own structure."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from tensorsmith.errors import UserError
from tensorsmith.frontends.torch.export import export, signature
from tensorsmith.frontends.torch.importer import UnsupportedNodes, import_graph
from tensorsmith.frontends.torch.types import array_of, tensor_of
from tensorsmith.graph.graph import Array, Graph
from tensorsmith.graph.model import Model
from tensorsmith.runtime.arguments import in_order
from tensorsmith.runtime.executable import Executable

Examples = Any  # a tensor, a sequence of arguments, or a mapping of arguments by name


def from_torch(module: torch.nn.Module | Callable[..., Any], example_inputs: Examples) -> Model:
    """The model of a module, exported for inputs of the shapes and types of the examples; see `tensorsmith.from_torch`."""
    if not callable(module):
        raise UserError(f"from_torch takes a torch.nn.Module or a function, not a {type(module).__name__}")
    held = as_module(module)
    name = type(module).__name__ if isinstance(module, torch.nn.Module) else getattr(module, "__name__", "function")
    args, kwargs = as_arguments(example_inputs)
    program = export(held, args, kwargs)
    given = signature(program)
    training = " (it is in training mode: call module.eval() first)" if held.training else ""
    if given.changes:
        raise UserError(f"{name} changes {', '.join(given.changes)} when it is called, which is not supported{training}")
    try:
        imported = import_graph(program.graph, given.constants, name)
    except UnsupportedNodes as problem:
        problem.args = (problem.args[0] + training,)
        raise
    places = {name: n for n, name in enumerate(given.inputs)}
    flat, _ = pytree.tree_flatten((args, kwargs))
    convention = Convention(
        inspect.signature(held.forward),
        (*inspect.signature(held.forward).bind_partial(*args).arguments, *kwargs),
        len(args),
        program.call_spec.in_spec,
        program.call_spec.out_spec,
        tuple(places[name] for name in imported.inputs),
        {n: x for n, x in enumerate(flat) if not isinstance(x, torch.Tensor)},
        imported.results,
        tuple(kwargs),
        all(isinstance(x, torch.Tensor) for x in (*args, *kwargs.values())),
    )
    return TorchModel(_named(imported.graph, convention), convention)


def as_module(module: torch.nn.Module | Callable[..., Any]) -> torch.nn.Module:
    """A module as it is, a function as a module."""
    return module if isinstance(module, torch.nn.Module) else _Function(module)


class _Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function
        self.training = False


def as_arguments(given: Examples) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Examples as the arguments of a call: a tensor is one, a sequence has several, a mapping names them."""
    if isinstance(given, torch.Tensor):
        return (given,), {}
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(given), {}
    raise UserError(f"example_inputs is a {type(given).__name__}; give a tensor, a tuple of arguments, or a dict of them by name")


@dataclass(frozen=True)
class Convention:
    """How a module is called, and what its results look like.

    `taken` are the numbers, among all arguments laid out flat, of the tensors that the graph takes, `fixed` the arguments that are
    no tensors. `results` is as in `Imported`. `plain` says that all arguments are tensors: calls with just these, those named in
    `keywords` in the example's order, need not be taken apart.
    """

    signature: inspect.Signature
    names: tuple[str, ...]  # of the arguments of the example; the first `positional` were given by position
    positional: int
    in_spec: Any
    out_spec: Any
    taken: tuple[int, ...]
    fixed: Mapping[int, Any]
    results: tuple[int | tuple[Any], ...]
    keywords: tuple[str, ...]
    plain: bool

    def arrays(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """What the graph takes, of a call's arguments."""
        flat: list[Any] = [*args, *kwargs.values()]
        as_expected = self.plain and len(args) == self.positional and tuple(kwargs) == self.keywords
        if not as_expected or not all(isinstance(x, torch.Tensor) for x in flat):
            flat, spec = pytree.tree_flatten((args, dict(kwargs)))
            if spec != self.in_spec:
                flat = self._as_the_example(name, args, kwargs)
        for n, expected in self.fixed.items():
            if flat[n] is not expected and flat[n] != expected:
                raise UserError(f"{name} was exported with {expected!r} as an argument, and is called with {flat[n]!r}")
        return [array_of(x) if isinstance(x, torch.Tensor) else x for x in (flat[n] for n in self.taken)]

    def _as_the_example(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments laid out flat, given by position or by name as in the example."""
        try:
            bound = dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError as problem:
            raise UserError(f"{name}: {problem}") from problem
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                bound |= bound.pop(parameter.name, {})
        by_position = tuple(bound.get(n) for n in self.names[: self.positional])
        flat, spec = pytree.tree_flatten((by_position, {n: bound.get(n) for n in self.names[self.positional :]}))
        if spec != self.in_spec or set(bound) - set(self.names):
            raise UserError(f"{name} takes {', '.join(self.names)}, built as in the example; it is called with other arguments")
        return flat

    def structured(self, results: Sequence[torch.Tensor]) -> Any:
        """Results as the module gives them."""
        leaves = [r[0] if isinstance(r, tuple) else results[r] for r in self.results]
        return pytree.tree_unflatten(leaves, self.out_spec)


def _named(graph: Graph, convention: Convention) -> Graph:
    """The graph with its outputs named after their places in the module's result."""
    places = pytree.tree_unflatten(range(len(convention.results)), convention.out_spec)
    paths = {n: "_".join(map(_key, path)) for path, n in pytree.tree_flatten_with_path(places)[0]}
    names: dict[int, str] = {}
    for n, r in enumerate(convention.results):
        if not isinstance(r, tuple):
            names.setdefault(r, paths[n] if paths[n] and not paths[n].isdigit() else f"output_{paths[n] or 0}")
    outputs = tuple((names[n], value) for n, (_, value) in enumerate(graph.outputs))
    return Graph(graph.inputs, outputs, graph.nodes, graph.constants, graph.name)


def _key(entry: Any) -> str:
    """A step on the way to a result: a key of a dict, a number in a tuple, a field."""
    return str(getattr(entry, "key", getattr(entry, "idx", getattr(entry, "name", entry))))


class TorchModel(Model):
    """A module as a model; executables of it take and give tensors."""

    def __init__(self, source: Graph, convention: Convention) -> None:
        super().__init__(source)
        self.convention = convention

    def presented(self, executable: Executable) -> Executable:
        return TorchExecutable(executable, self.convention)

    def __reduce__(self) -> NoReturn:
        raise UserError(
            f"{self.name} is called as its PyTorch module is, so it cannot be pickled; pickle the module, "
            "or compile it and use save()"
        )

    def __copy__(self) -> TorchModel:
        return TorchModel(self.source, self.convention)

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchModel:
        return TorchModel(copy.deepcopy(self.source, memo), self.convention)


class TorchExecutable(Executable):
    """A compiled module: called as the module itself, with tensors (or arrays) that are not copied, and gives what it gives.

    A file that `save` wrote gives, loaded, an executable of plain arrays, in the order of `inputs` and `outputs`.
    """

    def __init__(self, executable: Executable, convention: Convention) -> None:
        super().__init__(executable.network, executable._loaded)
        self.convention = convention

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.convention.structured(self._tensors(self.convention.arrays(self.name, args, kwargs)))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        arrays = [array_of(x) if isinstance(x, torch.Tensor) else x for x in in_order(self.name, self._input_names, (), inputs)]
        return dict(zip((o.name for o in self.outputs), self._tensors(arrays)))

    def __reduce__(self) -> NoReturn:
        raise UserError(
            f"{self.name} is called as its PyTorch module is, so it cannot be pickled; use save(), and load_executable() there, "
            "which gives an executable of plain arrays"
        )

    def _like(self, executable: Executable) -> Executable:
        return TorchExecutable(executable, self.convention)

    def _tensors(self, arrays: Sequence[Any]) -> list[torch.Tensor]:
        results: Array | tuple[Array, ...] = super().__call__(*arrays)
        return [tensor_of(r) for r in (results if isinstance(results, tuple) else (results,))]
