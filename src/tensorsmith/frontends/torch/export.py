"""A module as a graph of ATen operators, by `torch.export`.

What the table has a handler for stays one operator; everything else is decomposed to PyTorch's core operators.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from tensorsmith.errors import UserError
from tensorsmith.frontends.own import torch_names
from tensorsmith.frontends.torch.table import table

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_CHANGES = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def export(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> ExportedProgram:
    """The module for inputs of those shapes, decomposed. Raises `UserError` with PyTorch's reason where it cannot be exported."""
    with _explained(module):
        program = torch.export.export(module, tuple(args), dict(kwargs or {}), strict=False)
        return program.run_decompositions(_decompositions())


def export_open(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    """The module for inputs of which `dynamic_shapes` leave dimensions open, as it is."""
    with _explained(module):
        return torch.export.export(module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False)


@contextmanager
def _explained(module: torch.nn.Module) -> Iterator[None]:
    """Without PyTorch's warnings, and its errors as a `UserError` of one line."""
    dumped = io.StringIO()
    with _quiet(), torch.inference_mode(False), torch.no_grad():
        try:
            with redirect_stderr(dumped):  # where it fails, PyTorch prints the graph so far, once for each way it tried
                yield
            sys.stderr.write(dumped.getvalue())
        except Exception as problem:  # whatever PyTorch raises
            reason = next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
            name = type(module).__name__
            raise UserError(f"torch.export cannot turn {name} into a graph: {reason} (see `torch.export.export`)") from problem


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PyTorch's warnings about its own workings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _decompositions() -> Any:
    found = torch.export.default_decompositions()
    for name in table():
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload, None)
        if operator is not None and not is_view(operator):  # views have to become the few that PyTorch keeps in such graphs
            found.pop(operator, None)
    for name in torch_names():
        library, _, rest = name.partition("::")
        packet, _, overload = rest.rpartition(".")
        operator = getattr(getattr(getattr(torch.ops, library), packet, None), overload, None)
        if operator is not None:
            found.pop(operator, None)
    return found


def is_view(operator: Any) -> bool:
    """Whether an operator only looks at a tensor in another way."""
    schema = getattr(operator, "_schema", None)
    return schema is not None and any(result.alias_info is not None for result in schema.returns)


@dataclass(frozen=True)
class Signature:
    """Who gives the placeholders of an exported graph, and who gets its outputs. All by the placeholders' names.

    `constants` are parameters, buffers and other tensors that the graph only reads, `state` the buffers that it also changes, each
    with its name in the module. `inputs` are the flat arguments of a call. `changes` are the names of the inputs and the state that
    the first outputs of the graph replace; the others are results. `effects` says that it does more than to compute them, in an
    order that tokens keep.
    """

    constants: Mapping[str, torch.Tensor]
    state: Mapping[str, str]
    inputs: tuple[str, ...]
    changes: tuple[str, ...]
    effects: bool


def signature(program: ExportedProgram) -> Signature:
    """Reads what `torch.export` says about a graph."""
    given = program.graph_signature
    changed = {spec.target for spec in given.output_specs if spec.kind in _CHANGES}
    constants: dict[str, torch.Tensor] = {}
    state: dict[str, str] = {}
    inputs: list[str] = []
    effects = False
    for spec in given.input_specs:
        name = spec.arg.name
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(name)
        elif spec.kind is InputKind.TOKEN:
            effects = True
        elif spec.kind not in _CONSTANTS or spec.target is None:
            raise UserError(f"the module takes {name}, a {spec.kind.name.lower()}, which is not supported")
        elif spec.target in changed:
            state[name] = spec.target
        else:
            held = program.state_dict if spec.target in program.state_dict else program.constants
            constants[name] = held[spec.target]
    names = {target: name for name, target in state.items()}
    changes = [names.get(str(spec.target), str(spec.target)) for spec in given.output_specs if spec.kind in _CHANGES]
    known = (*_CHANGES, OutputKind.USER_OUTPUT, OutputKind.TOKEN)
    others = [spec.kind for spec in given.output_specs if spec.kind not in known]
    if others:
        raise UserError(f"the module gives a {others[0].name.lower()}, which is not supported")
    return Signature(constants, state, tuple(inputs), tuple(changes), effects)
