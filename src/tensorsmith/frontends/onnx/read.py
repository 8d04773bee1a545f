"""Reading ONNX files: the protobuf, tensors with their external data, attributes. What is wrong with a file is a `UserError`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, numpy_helper

from tensorsmith.elements import TABLE
from tensorsmith.errors import TensorsmithError, UserError
from tensorsmith.graph.graph import Array

#: more elements than this in one tensor of a file are taken for a mistake
LARGEST_CONSTANT = 1 << 31


class UnsupportedType(UserError):
    """An element type, or a kind of value, that there is no equivalent of."""


#: ONNX's element types and ours
TYPES: dict[int, str] = {TensorProto.DataType.Value(facts.onnx): name for name, facts in TABLE.items()}


def type_of(number: int, what: str) -> str:
    """Our name of an ONNX element type; `what` has it, for the error."""
    if number not in TYPES:
        known = TensorProto.DataType.DESCRIPTOR.values_by_number
        name = known[number].name if number in known else f"number {number}"
        raise UnsupportedType(f"{what} has the element type {name}; supported are {', '.join(map(_type_name, TYPES))}")
    return TYPES[number]


def _type_name(number: int) -> str:
    return str(TensorProto.DataType.Name(number))


#: only constants may have these: they are held in 8 bits, and packed again by whoever multiplies with them
_FOUR_BITS: dict[int, np.dtype] = {TensorProto.INT4: np.dtype(np.int8), TensorProto.UINT4: np.dtype(np.uint8)}


def numbers(array: Array, what: str) -> Array:
    """The array itself, if it is no array of strings."""
    if array.dtype.kind in "OSU":
        raise UnsupportedType(f"{what} holds strings; only numbers and bools are supported")
    return array


#: what a file that is not what it claims to be makes Python, NumPy and ONNX raise
_SYMPTOMS = (
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, MemoryError, RecursionError, OSError, EOFError,
)  # fmt: skip


@contextmanager
def malformed(what: str) -> Iterator[None]:
    """Turns what goes wrong inside, because a file is not what it claims to be, into a `UserError`."""
    try:
        yield
    except TensorsmithError:
        raise
    except _SYMPTOMS as e:
        raise UserError(f"{what}: {type(e).__name__}: {e}") from e


def read_model(source: str | os.PathLike[str] | bytes | ModelProto) -> tuple[ModelProto, Path | None]:
    """The model and the folder of its external data: None where it came without one."""
    if isinstance(source, ModelProto):
        return source, None
    folder = None
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        folder = path.resolve().parent
        try:
            source = path.read_bytes()
        except OSError as e:
            raise UserError(f"cannot read {path}: {e.strerror or e}") from e
        what = str(path)
    elif isinstance(source, (bytes, bytearray)):
        source, what = bytes(source), f"{len(source)} bytes"
    else:
        raise UserError(f"expected the path of an ONNX file, its bytes or a ModelProto, not {type(source).__name__}")
    model = ModelProto()
    try:
        model.ParseFromString(source)
    except Exception as e:  # each implementation of protobuf has its own
        raise UserError(f"{what}: not an ONNX file, or damaged ({str(e) or 'cannot be decoded'})") from e
    if not model.HasField("graph"):
        raise UserError(f"{what}: not an ONNX file: it has no graph")
    return model, folder


def read_tensor(tensor: TensorProto, folder: Path | None, what: str) -> Array:
    """The array of a tensor in the file or beside it, in a type of ours."""
    with malformed(what):
        name = f"{what} {tensor.name}".rstrip()
        if tensor.data_type not in _FOUR_BITS:
            type_of(tensor.data_type, name)
        shape = tuple(tensor.dims)
        count = 1
        for n in shape:
            count *= n
            if n < 0 or count > LARGEST_CONSTANT:
                raise UserError(f"{name} has the shape {list(shape)}")
        if tensor.data_location == TensorProto.EXTERNAL:
            array = _external(tensor, folder, count, name)
        else:
            if not shape and not tensor.raw_data and not any(len(getattr(tensor, f)) for f in _DATA_FIELDS):
                raise UserError(f"{name} is empty, but has no dimension of 0")
            array = numpy_helper.to_array(tensor)
        array = array.astype(_FOUR_BITS.get(tensor.data_type, array.dtype), copy=False)
        return numbers(array.reshape(shape), name)


_DATA_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def _external(tensor: TensorProto, folder: Path | None, count: int, name: str) -> Array:
    """A tensor whose numbers are in another file, which must lie in the model's folder or below it."""
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise UserError(f"{name} is in the file {location!r} beside the model: load the model by its path")
    if not location or os.path.isabs(location):
        raise UserError(f"{name} is in {location!r}; external data must be a path relative to the model")
    path = (folder / location).resolve()
    if not path.is_relative_to(folder):
        raise UserError(f"{name} is in {location!r}, which leads out of the model's folder")
    kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    offset, size = int(entries.get("offset", 0)), count * kind.itemsize
    length = int(entries.get("length", size))
    if not path.is_file():
        raise UserError(f"{name} is in {location!r}, which does not exist beside the model")
    if length != size or offset < 0 or offset + size > path.stat().st_size:
        raise UserError(
            f"{name} takes {size} bytes; the model places it at {offset}..{offset + length} of {location!r}, "
            f"which has {path.stat().st_size} bytes"
        )
    return np.fromfile(path, kind.newbyteorder("<"), count, offset=offset).astype(kind, copy=False)


def read_attribute(attribute: AttributeProto, folder: Path | None, what: str) -> Any:
    """An attribute as an int, float, string, array, or a tuple; graphs are given as they are."""
    kind = attribute.type
    if kind == AttributeProto.INT:
        return int(attribute.i)
    if kind == AttributeProto.FLOAT:
        return float(attribute.f)
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AttributeProto.TENSOR:
        return read_tensor(attribute.t, folder, f"{what}, attribute {attribute.name}")
    if kind == AttributeProto.GRAPH:
        return attribute.g
    if kind == AttributeProto.INTS:
        return tuple(int(n) for n in attribute.ints)
    if kind == AttributeProto.FLOATS:
        return tuple(float(n) for n in attribute.floats)
    if kind == AttributeProto.STRINGS:
        return tuple(s.decode("utf-8", "replace") for s in attribute.strings)
    known = AttributeProto.AttributeType.DESCRIPTOR.values_by_number
    name = known[kind].name if kind in known else f"of the type {kind}"
    raise UserError(f"{what}: the attribute {attribute.name} is {name}, which is not supported")
