"""The shapes of a model's inputs: what the file says, with its symbolic dimensions bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ValueInfoProto

from tensorsmith.errors import Parameter, Part, UserError, whole_number
from tensorsmith.frontends.onnx.read import UnsupportedType, type_of
from tensorsmith.show.line import many

#: an input's shape by its name, or a symbolic dimension's size by its name
Bindings = Mapping[str, Sequence[int] | int]

Dimension = int | str | None  # fixed, named, or open without a name


def names_of(graph: GraphProto) -> set[str]:
    """What `bind` takes a value for: inputs and symbolic dimensions."""
    constants = {t.name for t in graph.initializer}
    inputs = [v for v in graph.input if v.name not in constants]
    return {v.name for v in inputs} | {d for v in inputs for d in declared_shape(v) or () if isinstance(d, str)}


def plain_shapes(given: object, inputs: Sequence[ValueInfoProto]) -> dict[str, Any]:
    """What a user gave for `shapes`, whole numbers as ints, arrays as lists; what else is in it stays, for others to judge."""
    if not isinstance(given, Mapping):
        if len(inputs) == 1 and isinstance(given, (tuple, list)) and given:
            example = Parameter("shapes", entries=((inputs[0].name, tuple_text(given)),))
        else:
            example = Parameter("shapes", entries=(("input", "(1, 3, 224, 224)"), ("dimension", "8")))
        what = "it takes shapes by the names of inputs, and sizes by the names of dimensions, "
        raise UserError(Parameter("shapes", repr(given)), f": {what}", example)
    return {name: _plain(value) for name, value in given.items()}


def _plain(value: object) -> object:
    number = whole_number(value)
    if number is not None:
        return number
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value)([n if (size := whole_number(n)) is None else size for n in value])
    return value


def bind(
    inputs: Sequence[ValueInfoProto], given: Bindings, constants: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of each input. Raises `UserError` with every dimension that is left open."""
    declared = {v.name: declared_shape(v) for v in inputs}
    types = {v.name: type_of(v.type.tensor_type.elem_type, f"input {v.name}") for v in inputs}
    names = {d for dims in declared.values() for d in dims or () if isinstance(d, str)}
    sizes: dict[str, int] = {}
    whole: dict[str, tuple[int, ...]] = dict(constants)
    for name, value in given.items():
        if name in declared and isinstance(value, Sequence) and not isinstance(value, str):
            whole[name] = tuple(_size(name, n) for n in value)
        elif name in names and (not isinstance(value, Sequence) or isinstance(value, str)):
            sizes[name] = _size(name, value)
        else:
            raise unknown_name(name, value, declared, names)
    for name, shape in whole.items():
        _fit(name, declared[name], shape, sizes)
    for name, size in sizes.items():
        if size < 0:
            raise UserError(f"dimension {name} is given the size {size}")
    shapes = {
        name: whole[name] if name in whole else tuple(sizes.get(d, d) if isinstance(d, str) else d for d in dims or ())
        for name, dims in declared.items()
    }
    left = [name for name in declared if name not in whole]
    open_inputs = [name for name in left if declared[name] is None or any(not isinstance(d, int) for d in shapes[name])]
    if open_inputs:
        raise UserError(*_open_message(open_inputs, declared, sizes))
    return {name: (tuple(int(d) for d in shape if d is not None), types[name]) for name, shape in shapes.items()}


def _size(name: str, given: object) -> int:
    size = whole_number(given)
    if size is None:
        raise UserError(f"the size of {name} is {given!r}; give a whole number")
    return size


def unknown_name(name: str, value: object, inputs: Iterable[str], dimensions: Iterable[str]) -> UserError:
    """What is said of a value that is given for a name which the model does not have."""
    kind = "an input" if isinstance(value, tuple) else "a dimension"
    known = [f"input {n}" for n in inputs] + [f"dimension {n}" for n in sorted(dimensions)]
    wrong = Parameter("shapes", entries=((name, tuple_text(value) if isinstance(value, tuple) else str(value)),))
    return UserError(wrong, f": {name!r} is not {kind} of the model; it has {', '.join(known) or 'no inputs'}")


def declared_shape(v: ValueInfoProto) -> tuple[Dimension, ...] | None:
    """What the file says of an input's shape; None where it says nothing. Some write -1 or "?" for a size that is open."""
    kind = v.type.WhichOneof("value")
    if kind != "tensor_type":
        what = kind.removesuffix("_type") if kind else "value without a type"
        raise UnsupportedType(f"input {v.name} is a {what}; only tensors are supported")
    if not v.type.tensor_type.HasField("shape"):
        return None
    dims: list[Dimension] = []
    for d in v.type.tensor_type.shape.dim:
        field = d.WhichOneof("value")
        if field == "dim_value":
            dims.append(d.dim_value if d.dim_value >= 0 else None)
        else:
            dims.append(d.dim_param if field == "dim_param" and d.dim_param.strip("?-") else None)
    return tuple(dims)


def _fit(name: str, dims: tuple[Dimension, ...] | None, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Checks a shape against what the file says, and learns the sizes of named dimensions from it."""
    if any(n < 0 for n in shape):
        raise UserError(f"input {name} is given the shape {list(shape)}; every size must be 0 or more")
    if dims is None:
        return
    if len(dims) != len(shape):
        raise UserError(f"input {name} has {many(len(dims), 'dimension')} {_text(dims)}; the shape given is {list(shape)}")
    for d, n in zip(dims, shape):
        if isinstance(d, int) and d not in (n, 0):  # some write 0 for a size that is open, too
            raise UserError(f"input {name} has the shape {_text(dims)}; the shape given is {list(shape)}")
        if isinstance(d, str) and sizes.setdefault(d, n) != n:
            raise UserError(f"dimension {d} is {sizes[d]} and, in the shape {list(shape)} given for input {name}, {n}")


def _text(dims: Sequence[Dimension]) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


def tuple_text(sizes: Sequence[object]) -> str:
    """`(1, 3)`, `(3,)`"""
    return f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"


def _open_message(
    names: Sequence[str], declared: Mapping[str, tuple[Dimension, ...] | None], sizes: Mapping[str, int]
) -> list[Part]:
    """What is open, and what to give."""
    lines: list[str] = []
    wanted: dict[str, str] = {}
    for name in names:
        dims = declared[name]
        if dims is None:
            lines.append(f"input {name}: the file gives no shape")
            wanted[name] = "(N, ...)"
            continue
        unbound = [d for d in dims if isinstance(d, str) and d not in sizes]
        unnamed = sum(d is None for d in dims)
        what = [*dict.fromkeys(unbound), *([f"{unnamed} without a name"] if unnamed else [])]
        lines.append(f"input {name} {_text(dims)}: {', '.join(what)}")
        if unnamed:
            wanted[name] = tuple_text([d if isinstance(d, int) else "N" for d in dims])
        else:
            wanted |= dict.fromkeys(unbound, "N")
    return [f"these dimensions are open: {'; '.join(lines)}. Bind them: ", Parameter("shapes", entries=tuple(wanted.items()))]
